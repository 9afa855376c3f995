"""``conformance query`` prints results as lines, counts or JSON, and reports errors of the user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance import cli
from conformance.results import document
from tests.support.sample_legs import leg


@pytest.fixture
def run(tmp_path: Path) -> Path:
    legs = [leg("eager", "pass", "fail"), leg("lazy", "fail", "pass")]
    legs[0]["results"][1]["failures"] = [{"kind": "value", "message": "1 of 3 differ\nmore"}]
    document.write_results(tmp_path / "results.json", document.results_document(legs))
    return tmp_path


def test_results_are_lines(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["query", str(run), "verdict:fail kind:value"]) == 0
    line, total = capsys.readouterr().out.splitlines()
    assert line.startswith("fail        p/s1@d [") and line.endswith("]: 1 of 3 differ")
    assert total == "1 of 4 results match"


def test_results_are_counted(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["query", str(run), "not op:none", "--by", "verdict"]) == 0
    assert capsys.readouterr().out.splitlines() == ["2  pass", "2  fail", "4 of 4 results match"]
    assert cli.main(["query", str(run), "", "--by", "subject", "--limit", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == ["2  s0", "4 of 4 results match"]


def test_results_are_rows_of_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["query", str(run), "op:s1 mode:eager", "--json"]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (row["id"], row["verdict"], row["failures"][0]["kind"]) == ("p/s1@d", "fail", "value")


def test_no_matching_result_exits_with_1(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["query", str(run), "op:other"]) == 1
    assert capsys.readouterr().out == "0 of 4 results match\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["verdict:fial"], "the unknown verdict 'fial' at character 9; did you mean 'fail'?"),
        (["", "--by", "seconds"], "--by seconds is not a key to count by"),
        (["", "--by", "op", "--json"], "use one of them"),
    ],
)
def test_errors_of_the_user(
    run: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["query", str(run), *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
