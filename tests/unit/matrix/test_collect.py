"""``matrix.collect`` determines the outcome of each matrix cell. A missing or refused leg is never a pass."""

from __future__ import annotations

import json

import pytest

from conformance import cli
from conformance.matrix import collect, plan, table
from tests.support.sample_passing_leg import fixed_suite_digest, leg, with_rows, write_output_folder


def planned_cell(mode="eager", expect="results", **changes):
    fields = {
        "target": "mine",
        "build": "2.13.0-public",
        "spec": "2.13.0",
        "kind": "public",
        "level": "bringup",
        **changes,
    }
    why = "mine.toml: mode lazy is for fork-like builds" if expect == "refusal" else ""
    return plan.Cell(id=f"{fields['build']}-{mode}", mode=mode, expect=expect, why=why, **fields)


def refused_leg(mode):
    refused_leg = leg("bringup", mode)
    refused_leg.update(exit=2, complete=False, problems=["it needs a fork-like torch"], results=[], planned=0)
    refused_leg.update(totals={}, cases={}, case_totals={})
    return refused_leg


def outcome_after_writing(plan_cell, leg_record, tmp_path):
    with fixed_suite_digest():
        write_output_folder(tmp_path / plan_cell.id, leg_record)
        return collect.outcome_of_cell(plan_cell, tmp_path / plan_cell.id)


def test_a_cell_that_passed(tmp_path):
    outcome = outcome_after_writing(planned_cell(), leg(), tmp_path)
    assert (outcome.status, outcome.is_as_expected, outcome.torch, outcome.torch_kind, outcome.abi) == (
        *("passed", True, "2.13.0+cpu", "public", "1"),
    )
    assert f"{outcome.planned} of {outcome.planned}" in table.describe_outcome(outcome)


def test_a_cell_that_failed(tmp_path):
    failing_leg = leg()
    name = failing_leg["results"][0]["id"]
    failed = {"verdict": "fail", "failures": [{"kind": "value", "message": "no"}], "failure_count": 1}
    failing_leg = with_rows(failing_leg, {name: failed})
    failing_leg["exit"] = 1
    outcome = outcome_after_writing(planned_cell(), failing_leg, tmp_path)
    assert (outcome.status, outcome.is_as_expected) == ("failed", False)
    assert table.describe_outcome(outcome).startswith("FAIL (bringup, ")


@pytest.mark.parametrize(("expect", "status"), [("refusal", "unsupported"), ("results", "not-started")])
def test_a_refused_leg_is_unsupported_only_if_declared(expect, status, tmp_path):
    outcome = outcome_after_writing(planned_cell("lazy", expect), refused_leg("lazy"), tmp_path)
    assert outcome.status == status
    assert outcome.text == "it needs a fork-like torch"
    assert "pass" not in table.describe_outcome(outcome)


def test_a_refused_build_needs_the_declared_reason(tmp_path):
    for says, status in (("needs a fork-like", "unsupported"), ("no hpu beside it", "not-started")):
        cells = [planned_cell("lazy", "refusal", says=says)]
        with fixed_suite_digest():
            write_output_folder(tmp_path / cells[0].id, refused_leg("lazy"))
        assert [outcome.status for outcome in collect.collect_outcomes(cells, tmp_path)] == [status]


def test_a_leg_that_ran_despite_a_declared_refusal(tmp_path):
    outcome = outcome_after_writing(planned_cell("eager", "refusal"), leg(), tmp_path)
    assert (outcome.status, outcome.is_as_expected) == ("failed", False)
    assert "although a refusal was declared" in outcome.text


def test_an_incomplete_run(tmp_path):
    stopped_leg = leg()
    stopped_leg.update(complete=False, exit=3, problems=["stopped"])
    assert outcome_after_writing(planned_cell(), stopped_leg, tmp_path).status == "incomplete"


def test_results_of_a_different_mode_are_missing(tmp_path):
    assert outcome_after_writing(planned_cell("lazy"), leg(), tmp_path).status == "missing"
    assert outcome_after_writing(planned_cell(level="core"), leg(), tmp_path).status == "missing"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"spec": "2.6.0"}, "not 2.6.0"),
        ({"kind": "fork-like"}, "of a public build of torch"),
        ({"target": "other"}, "of target mine"),
        ({"made": "source"}, "of a source build of torch"),
    ],
)
def test_a_run_on_a_different_build_is_not_accepted(changes, message, tmp_path):
    leg_record = leg()
    leg_record["facts"]["torch"]["kind"] = changes.pop("made", "public")
    outcome = outcome_after_writing(planned_cell(**changes), leg_record, tmp_path)
    assert outcome.status == "missing" and message in outcome.text


@pytest.mark.parametrize(
    "lie",
    [
        lambda found: with_rows(found, {row["id"]: {"verdict": "fail"} for row in found["results"][:50]}),
        lambda found: {**found, "oracle": {"checked": 1, "differences": ["x"]}},
        lambda found: {**found, "samples": "1"},
        lambda found: {**found, "facts": {**found["facts"], "extra": ["mine"]}},
    ],
)
def test_a_wrong_summary_of_a_leg_does_not_improve_its_outcome(lie, tmp_path):
    false_leg = lie(leg())
    assert (false_leg["exit"], false_leg["complete"]) == (0, True)
    assert outcome_after_writing(planned_cell(), false_leg, tmp_path).status in ("failed", "incomplete")


def test_a_broken_environment_is_not_a_declared_refusal(tmp_path):
    cells = [planned_cell(), planned_cell("lazy", "refusal")]
    with fixed_suite_digest():
        for plan_cell in cells:
            write_output_folder(tmp_path / plan_cell.id, refused_leg(plan_cell.mode))
    assert [plan_cell.status for plan_cell in collect.collect_outcomes(cells, tmp_path)] == [
        "not-started",
        "not-started",
    ]
    with fixed_suite_digest():
        write_output_folder(tmp_path / cells[0].id, leg())
    assert [plan_cell.status for plan_cell in collect.collect_outcomes(cells, tmp_path)] == [
        "passed",
        "unsupported",
    ]


def test_missing_or_unreadable_folders_are_missing_cells(tmp_path):
    assert collect.outcome_of_cell(planned_cell(), tmp_path / "none").status == "missing"
    (tmp_path / "results.json").write_text("{")
    assert collect.outcome_of_cell(planned_cell(), tmp_path).status == "incomplete"


def test_matrix_collect_writes_a_table(tmp_path, capsys):
    cells = [planned_cell(), planned_cell("lazy", "refusal"), planned_cell("graph")]
    (tmp_path / "plan.json").write_text(plan.plan_json(cells))
    runs = tmp_path / "runs"
    runs.mkdir()
    with fixed_suite_digest():
        write_output_folder(runs / cells[0].id, leg())
        write_output_folder(runs / cells[1].id, refused_leg("lazy"))
    arguments = ["matrix", "collect", str(tmp_path / "plan.json"), str(runs), "-o", str(tmp_path / "out")]
    assert cli.main(arguments) == 3  # one cell is missing
    assert "2 of 3 cells are good" in capsys.readouterr().out
    data = json.loads((tmp_path / "out" / "matrix.json").read_text())
    assert [entry["status"] for entry in data["cells"]] == ["passed", "unsupported", "missing"]
    with fixed_suite_digest():
        write_output_folder(runs / cells[2].id, leg("bringup", "graph"))
    assert cli.main(arguments) == 0
    assert cli.main(["matrix", "collect", str(tmp_path / "plan.json"), str(tmp_path / "no"), "-o", "x"]) == 2


def test_hostile_text_is_escaped_in_the_summary():
    hostile_text = "<img src=x onerror=alert(1)> [link](http://x) | `code` $(id)"
    outcome = collect.CellOutcome(planned_cell(), collect.CellStatus.NOT_STARTED, text=hostile_text)
    text = table.markdown_table([outcome])
    assert "<img" not in text and "[link](" not in text
    assert text.count("\n| ") + text.startswith("|") == 3  # the text in the first cell must not add a column
