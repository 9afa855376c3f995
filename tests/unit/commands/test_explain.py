"""``conformance explain`` and ``conformance issue`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.results import document
from tests.support.sample_legs import leg


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_explain_shows_requirement_inputs_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, "explain", "layout/add@float32")
    assert text.splitlines()[0] == "layout/add@float32"
    assert "requirement: Inputs with gaps, transposed, at an offset" in text
    assert "needs: non_contiguous" in text
    assert "source: conformance/properties/operators/layout.py:" in text
    assert "samples of torch's database\n    0: float32[], float32[]" in text
    assert text.endswith("run it: conformance repro layout/add@float32 --target TARGET\n")


def test_explain_explains_a_property_without_a_subject(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, "explain", "layout")
    assert text.startswith("layout, a property of subjects of kind operator\n  requirement: Inputs with gaps")
    assert "basis: consistency" in text and "seed:" not in text
    assert "kind module" in output_of(capsys, "explain", "forward")


def test_explain_accepts_a_sample_limit(capsys: pytest.CaptureFixture[str]) -> None:
    from conformance.samples import sample_limit

    before = sample_limit.sample_limit, sample_limit.exact
    try:
        assert "inputs: 2 of " in output_of(capsys, "explain", "value/add@float32", "--samples", "2")
    finally:
        sample_limit.sample_limit, sample_limit.exact = before


def test_explain_shows_the_program_of_a_behaviour(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, "explain", "write-through-select/views@float32")
    assert "area: views" in text and "    def write_through_select(lab: Lab) -> None:" in text
    assert "detects these injected faults in its test: value, alias" in text


def test_explain_shows_the_designated_mutation_operators(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, "explain", "graph_value/add@float32")
    assert "is designated to kill these mutation operators (docs/mutation-testing.md):" in text
    assert "    replay-dropped: " in text


@pytest.mark.parametrize(
    ("result_id", "message"),
    [
        ("value/nope@float32", "no operator is called 'nope'"),
        ("nope/add@float32", "no property is called 'nope'"),
        ("value/add@float7", "has no result for 'float7' on the CPU; it has bfloat16"),
        ("layout/add@float16", "it has float32, int64"),
        ("layuot", "no property is called 'layuot'; did you mean layout"),
        ("value/add", "is not of the form property/subject@dtype"),
    ],
)
def test_an_unknown_result_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], result_id: str, message: str
) -> None:
    text = output_of(capsys, "explain", result_id, code=2)
    assert message in text and "Traceback" not in text


def test_issues_of_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    legs = [leg("eager", "pass", "fail", "fail")]
    (tmp_path / "results.json").write_text(json.dumps(document.results_document(legs)))
    listed = output_of(capsys, "issue", str(tmp_path))
    assert listed.startswith("1: ") and listed.count("\n") == 1
    text = output_of(capsys, "issue", str(tmp_path), "1", "--no-snippet", "--target", "/some/where/mine.toml")
    assert text.startswith("# ") and "--target mine.toml" in text and "/some/where" not in text
    assert "cause 2 does not exist" in output_of(capsys, "issue", str(tmp_path), "2", code=2)


def test_a_passing_run_has_nothing_to_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(document.results_document([leg("eager", "pass")])))
    assert output_of(capsys, "issue", str(tmp_path)).startswith("nothing to report")
    assert "contains no results" in output_of(capsys, "issue", str(tmp_path / "nothing"), code=2)
