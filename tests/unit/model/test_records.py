"""Each record type has the same keys as its definition in the JSON schema of results documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.model import records
from conformance.model.schema import FOLDER

SCHEMA = json.loads((FOLDER / "results.json").read_text())
LEG = SCHEMA["$defs"]["leg"]


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (records.Document, SCHEMA),
        (records.Leg, LEG),
        (records.TargetRecord, LEG["properties"]["target"]),
        (records.MissingResults, LEG["properties"]["missing"]),
        (records.OracleCheck, LEG["properties"]["oracle"]),
        (records.TargetDeclarations, SCHEMA["$defs"]["declared"]),
        (records.ResultRow, SCHEMA["$defs"]["result"]),
        (records.FailureRow, SCHEMA["$defs"]["failure"]),
        (records.AttemptSummary, SCHEMA["$defs"]["attempt"]),
        (records.ExpectationReport, SCHEMA["$defs"]["expectations"]),
        (records.ExpectationRecord, SCHEMA["$defs"]["expectation"]),
    ],
)
def test_a_type_has_the_keys_of_its_schema(kind: Any, schema: dict[str, Any]) -> None:
    assert kind.__required_keys__ == set(schema["required"])
    assert kind.__required_keys__ | kind.__optional_keys__ == set(schema["properties"])


def test_an_attempt_row_has_a_number_and_no_attempts() -> None:
    row, attempt = records.ResultRow, records.AttemptRow
    assert attempt.__required_keys__ == row.__required_keys__
    assert attempt.__optional_keys__ ^ row.__optional_keys__ == {"attempt", "attempts"}
