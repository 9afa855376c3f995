"""``model.schema`` validates JSON values, and rejects schemas with keywords that it does not check."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.model.schema import FOLDER, Schema, SchemaError
from conformance.model.verdicts import Kind, Placement, Verdict
from conformance.report.page_data import LETTERS


@pytest.mark.parametrize(
    ("schema", "good", "bad", "where"),
    [
        ({"type": "integer"}, 3, True, ": True is not of type integer"),
        ({"type": ["string", "null"]}, None, 3, ": 3 is not of type string or null"),
        ({"type": "object", "required": ["a"]}, {"a": 1}, {}, ": key 'a' is missing"),
        ({"type": ["object", "null"], "required": ["a"]}, None, {}, ": key 'a' is missing"),
        (
            {"properties": {"a": {"minimum": 0}}, "additionalProperties": False},
            {"a": 0},
            {"a": -1},
            ".a: -1 is below 0",
        ),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 0},
            {"b": 1},
            ": key 'b' is unknown",
        ),
        ({"additionalProperties": {"type": "string"}}, {"x": "y"}, {"x": 1}, ".x: 1 is not of type string"),
        ({"items": {"maxLength": 2}}, ["ab"], ["a", "abc"], "[1]: has 3 of at most 2 characters"),
        ({"type": "string", "pattern": "^a+$"}, "aa", "ab", ": 'ab' does not match ^a+$"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"const": 1}}}, 1, 2, ": 2 is not 1"),
    ],
)
def test_valid_and_invalid_values(schema: dict[str, Any], good: object, bad: object, where: str) -> None:
    compiled = Schema(schema)
    compiled.validate(good)
    with pytest.raises(SchemaError) as error:
        compiled.validate(bad)
    assert str(error.value) == where


def test_unsupported_schema_keywords_are_rejected() -> None:
    with pytest.raises(SchemaError, match="'oneOf' is not supported"):
        Schema({"oneOf": []})


def test_the_schema_lists_the_verdicts_and_kinds_of_the_model() -> None:
    definitions = json.loads((FOLDER / "results.json").read_text())["$defs"]
    assert definitions["verdict"]["enum"] == [verdict.value for verdict in Verdict]
    assert definitions["kind"]["enum"] == [kind.value for kind in Kind]
    placements = definitions["result"]["properties"]["placement"]["enum"]
    assert placements == [placement.value for placement in Placement]
    assert set(LETTERS) == set(Verdict)
    assert len(set(LETTERS.values())) == len(Verdict)
