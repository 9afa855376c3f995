"""The query language finds results and reports errors, and its implementations in Python and JavaScript
agree.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conformance.query import fields, language
from conformance.query.fields import ResultFields

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors.json").read_text())
SCRIPT = Path(language.__file__).parent / "query.js"
ROWS = {
    name: ResultFields(**{**row, "kinds": tuple(row["kinds"]), "texts": tuple(row["texts"])})
    for name, row in VECTORS["rows"].items()
}
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run query.js")


@pytest.mark.parametrize(("text", "found"), VECTORS["matches"])
def test_results_that_a_query_finds(text: str, found: list[str]) -> None:
    predicate = language.parse_query(text)
    assert [name for name, row in ROWS.items() if predicate(row)] == found


@pytest.mark.parametrize(("text", "at", "message"), VECTORS["errors"])
def test_errors_have_a_position_and_a_message(text: str, at: int, message: str) -> None:
    with pytest.raises(language.QueryError) as error:
        language.parse_query(text)
    assert error.value.at == at
    assert str(error.value).startswith(message + "; ")
    assert "\n" not in str(error.value)


def test_a_misspelt_word_gets_a_suggestion() -> None:
    with pytest.raises(language.QueryError, match="did you mean 'fail'"):
        language.parse_query("verdict:fial")
    with pytest.raises(language.QueryError, match="did you mean 'property'"):
        language.parse_query("propery:value")


@pytest.mark.parametrize("text", ["(" * 200 + "a" + ")" * 200, "not " * 200 + "a", "a " * 2000])
def test_very_long_queries_are_rejected(text: str) -> None:
    with pytest.raises(language.QueryError):
        language.parse_query(text)


def test_a_pattern_with_many_stars_is_fast() -> None:
    predicate = language.parse_query("op:" + "*a" * 12 + "b")
    row = ROWS["add"]
    assert not predicate(ResultFields(**{**vars(row), "op": "a" * 60}))


def run_javascript(program: str) -> Any:
    command = ["node", "-e", f"const query = require({json.dumps(str(SCRIPT))}); {program}"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@needs_node
def test_javascript_finds_the_same_results(tmp_path: Path) -> None:
    rows = {}
    for name, row in VECTORS["rows"].items():
        identity = f"{row['property']}/{row['op']}@{row['dtype']}"
        rows[name] = {**row, "id": identity}
    names = run_javascript(
        f"const rows = {json.dumps(rows)}, queries = {json.dumps([text for text, _ in VECTORS['matches']])};"
        "console.log(JSON.stringify(queries.map((text) => { const test = query.parse(text);"
        "return Object.keys(rows).filter((name) => test(rows[name])); })))"
    )
    assert names == [names for _, names in VECTORS["matches"]]


@needs_node
def test_javascript_reports_the_same_errors() -> None:
    errors = run_javascript(
        f"const queries = {json.dumps([text for text, _, _ in VECTORS['errors']])};"
        "console.log(JSON.stringify(queries.map((text) => { try { query.parse(text); return null; }"
        "catch (error) { return [error.at, error.message]; } })))"
    )
    assert [at for at, _ in errors] == [at for _, at, _ in VECTORS["errors"]]
    for (_, message), (_, _, expected_text) in zip(errors, VECTORS["errors"], strict=True):
        assert message.startswith(expected_text + "; ")


@needs_node
def test_both_implementations_have_the_same_keys_and_values() -> None:
    vocabulary = run_javascript("console.log(JSON.stringify([query.KEYS, query.ALIASES, query.CLOSED]))")
    assert vocabulary == [
        list(fields.KEYS),
        fields.ALIASES,
        {key: list(values) for key, values in fields.CLOSED.items()},
    ]


@needs_node
def test_a_typed_query_is_completed() -> None:
    completions = run_javascript(
        "const words = { op: ['topk', 'addmm', 'add'], family: ['nn conv'] };"
        "console.log(JSON.stringify(['o', 'x op:add', '-verdict:fa', 'op:topk,ad', 'family:nn', 'op:zz']"
        ".map((text) => query.complete(text, words))))"
    )
    assert completions == [
        ["op:"],
        ["x op:addmm", "x op:add"],
        ["-verdict:fail", "-verdict:xfail"],
        ["op:topk,addmm", "op:topk,add"],
        ['family:"nn conv"'],
        [],
    ]
