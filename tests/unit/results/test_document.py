"""``results.document`` validates results documents when they are written and read. A leg has the exit code
that follows from its results.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageError
from conformance.model.schema import SchemaError
from conformance.results import document as results
from conformance.results import exit_codes
from tests.support.sample_legs import results_with_three_verdicts, run_leg


def test_results_are_validated_on_write_and_on_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    valid = results_with_three_verdicts()
    valid["legs"][0]["seconds"] = 1.5
    results.write_results(path, valid)
    assert results.read_results(path) == valid
    with pytest.raises(UsageError, match=r"have \d+ bytes; the maximum is 100"):
        results.read_results(path, limit=100)
    valid["legs"][0]["results"][0]["verdict"] = "passed"
    with pytest.raises(
        SchemaError, match=r"^\.legs\[0\]\.results\[0\]\.verdict: 'passed' is not one of crash, "
    ):
        results.write_results(path, valid)
    assert results.read_results(path)["legs"][0]["results"][0]["verdict"] == "pass", (
        "an invalid document replaced the file"
    )
    path.write_text(json.dumps(valid))
    with pytest.raises(UsageError, match="do not follow the schema"):
        results.read_results(path)
    path.write_text("[" * 100_000)
    with pytest.raises(UsageError, match="do not follow the schema"):
        results.read_results(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"seconds":0.5', '"seconds":Infinity', "Infinity is not a number in JSON"),
        ('"id":"p/s1@d"', '"id":"p/s0@d"', "result 'p/s0@d' appears twice"),
        ('"verdict":"fail"', '"verdict":"pass"', "cases differs from the counts of the results"),
        ('"totals":{"fail":1,', '"totals":{"fail":2,', "totals differs from the counts of the results"),
        ('"planned":3', '"planned":4', "planned differs from the counts of the results"),
        ('"missing":{"count":0', '"missing":{"count":1', "planned differs from the counts of the results"),
    ],
)
def test_inconsistent_totals_are_rejected(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "results.json"
    results.write_results(path, results_with_three_verdicts())
    head, middle, rest = path.read_text().partition('"legs":')
    assert old in rest
    path.write_text(head + middle + rest.replace(old, new, 1))
    with pytest.raises(UsageError, match=message) as error:
        results.read_results(path)
    assert "\n" not in str(error.value)


def test_a_lone_surrogate_is_written_as_a_question_mark(tmp_path: Path) -> None:
    """A message of a device may contain half a character (a lone surrogate), which UTF-8 cannot encode."""
    damaged = results_with_three_verdicts()
    damaged["legs"][0]["problems"] = ["a file 'x\udcff' of \u00e9\U0001f600"]
    path = tmp_path / "results.json"
    results.write_results(path, damaged)
    assert results.read_results(path)["legs"][0]["problems"] == ["a file 'x?' of \u00e9\U0001f600"]
    assert damaged["legs"][0]["problems"] == ["a file 'x\udcff' of \u00e9\U0001f600"]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["pass", "unsupported"], 0),
        *[(["pass", verdict], 1) for verdict in ("fail", "error", "crash", "timeout", "vacuous")],
    ],
)
def test_exit_codes_of_complete_runs(verdicts: list[str], code: int) -> None:
    assert run_leg(*verdicts)["exit"] == code


def test_the_exit_code_of_an_incomplete_run_is_3_despite_failures() -> None:
    incomplete = run_leg("pass", "fail", planned=3)
    assert (incomplete["exit"], incomplete["complete"]) == (3, False)
    assert incomplete["missing"] == {"count": 1, "first": ["p/s2@d"]}


@pytest.mark.parametrize(
    "broken",
    [
        {"ended": False},
        {"planned": 0},
        {"events": ({"event": "interrupted"},)},
        {"events": ({"event": "oracle-check", "checked": 1, "differences": ["differs"]},)},
    ],
)
def test_incomplete_runs_have_exit_code_3(broken: dict[str, Any]) -> None:
    verdicts = [] if broken.get("planned") == 0 else ["pass"]
    assert run_leg(*verdicts, **broken)["exit"] == 3


def test_the_exit_code_of_several_legs_is_the_worst() -> None:
    assert [exit_codes.worst_exit_code(codes) for codes in ([0, 1], [1, 3, 0], [3, 2, 1], [0])] == [
        1,
        3,
        2,
        0,
    ]
    assert results.results_document([])["complete"] is False
