"""Outcomes of the cells of a matrix: nothing that is missing or refused looks like a pass."""

from __future__ import annotations

import json

import pytest

from conformance import cli
from conformance.matrix import collect, plan, table
from tests.support.sample_passing_leg import folder, leg, settled, with_rows


def cell(mode="eager", expect="results", **changes):
    words = {
        "target": "mine",
        "build": "2.13.0-public",
        "spec": "2.13.0",
        "kind": "public",
        "level": "bringup",
        **changes,
    }
    why = "mine.toml: mode lazy is for fork-like builds" if expect == "refusal" else ""
    return plan.Cell(id=f"{words['build']}-{mode}", mode=mode, expect=expect, why=why, **words)


def refused(mode):
    found = leg("bringup", mode)
    found.update(exit=2, complete=False, problems=["it needs a fork-like torch"], results=[], planned=0)
    found.update(totals={}, cases={}, case_totals={})
    return found


def outcome_of(one, found, tmp_path):
    with settled():
        folder(tmp_path / one.id, found)
        return collect.outcome_of_cell(one, tmp_path / one.id)


def test_a_cell_that_passed(tmp_path):
    found = outcome_of(cell(), leg(), tmp_path)
    assert (found.status, found.good, found.torch, found.torch_kind, found.abi) == (
        *("passed", True, "2.13.0+cpu", "public", "1"),
    )
    assert f"{found.planned} of {found.planned}" in table.describe_outcome(found)


def test_a_cell_that_failed(tmp_path):
    found = leg()
    name = found["results"][0]["id"]
    failed = {"verdict": "fail", "failures": [{"kind": "value", "message": "no"}], "failure_count": 1}
    found = with_rows(found, {name: failed})
    found["exit"] = 1
    got = outcome_of(cell(), found, tmp_path)
    assert (got.status, got.good) == ("failed", False)
    assert table.describe_outcome(got).startswith("FAIL (bringup, ")


@pytest.mark.parametrize(("expect", "status"), [("refusal", "unsupported"), ("results", "not-started")])
def test_a_refusal_is_no_pass_and_no_silence(expect, status, tmp_path):
    found = outcome_of(cell("lazy", expect), refused("lazy"), tmp_path)
    assert found.status == status
    assert found.text == "it needs a fork-like torch"
    assert "pass" not in table.describe_outcome(found)


def test_a_refusal_of_a_whole_build_has_to_say_why(tmp_path):
    for says, status in (("needs a fork-like", "unsupported"), ("no hpu beside it", "not-started")):
        cells = [cell("lazy", "refusal", says=says)]
        with settled():
            folder(tmp_path / cells[0].id, refused("lazy"))
        assert [one.status for one in collect.collect_outcomes(cells, tmp_path)] == [status]


def test_what_ran_although_a_refusal_was_declared(tmp_path):
    found = outcome_of(cell("eager", "refusal"), leg(), tmp_path)
    assert (found.status, found.good) == ("failed", False)
    assert "although a refusal was declared" in found.text


def test_an_incomplete_run(tmp_path):
    found = leg()
    found.update(complete=False, exit=3, problems=["stopped"])
    assert outcome_of(cell(), found, tmp_path).status == "incomplete"


def test_results_of_something_else_are_no_results_of_the_cell(tmp_path):
    assert outcome_of(cell("lazy"), leg(), tmp_path).status == "missing"
    assert outcome_of(cell(level="core"), leg(), tmp_path).status == "missing"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec": "2.6.0"}, "not 2.6.0"),
        ({"kind": "fork-like"}, "of a public build of torch"),
        ({"target": "other"}, "of target mine"),
        ({"made": "source"}, "of a source build of torch"),
    ],
)
def test_a_run_on_another_build_is_no_run_of_the_cell(changes, words, tmp_path):
    made = leg()
    made["facts"]["torch"]["kind"] = changes.pop("made", "public")
    found = outcome_of(cell(**changes), made, tmp_path)
    assert found.status == "missing" and words in found.text


@pytest.mark.parametrize(
    "lie",
    [
        lambda found: with_rows(found, {row["id"]: {"verdict": "fail"} for row in found["results"][:50]}),
        lambda found: {**found, "oracle": {"checked": 1, "differences": ["x"]}},
        lambda found: {**found, "samples": "1"},
        lambda found: {**found, "facts": {**found["facts"], "extra": ["mine"]}},
    ],
)
def test_what_a_run_says_of_itself_never_makes_it_better(lie, tmp_path):
    found = lie(leg())
    assert (found["exit"], found["complete"]) == (0, True)
    assert outcome_of(cell(), found, tmp_path).status in ("failed", "incomplete")


def test_a_dead_environment_is_no_declared_refusal(tmp_path):
    cells = [cell(), cell("lazy", "refusal")]
    with settled():
        for one in cells:
            folder(tmp_path / one.id, refused(one.mode))
    assert [one.status for one in collect.collect_outcomes(cells, tmp_path)] == ["not-started", "not-started"]
    with settled():
        folder(tmp_path / cells[0].id, leg())
    assert [one.status for one in collect.collect_outcomes(cells, tmp_path)] == ["passed", "unsupported"]


def test_folders_that_are_not_there_or_hold_rubbish(tmp_path):
    assert collect.outcome_of_cell(cell(), tmp_path / "none").status == "missing"
    (tmp_path / "results.json").write_text("{")
    assert collect.outcome_of_cell(cell(), tmp_path).status == "incomplete"


def test_the_command(tmp_path, capsys):
    cells = [cell(), cell("lazy", "refusal"), cell("graph")]
    (tmp_path / "plan.json").write_text(plan.plan_json(cells))
    runs = tmp_path / "runs"
    runs.mkdir()
    with settled():
        folder(runs / cells[0].id, leg())
        folder(runs / cells[1].id, refused("lazy"))
    arguments = ["matrix", "collect", str(tmp_path / "plan.json"), str(runs), "-o", str(tmp_path / "out")]
    assert cli.main(arguments) == 3  # one is missing
    assert "2 of 3 cells are good" in capsys.readouterr().out
    data = json.loads((tmp_path / "out" / "matrix.json").read_text())
    assert [entry["status"] for entry in data["cells"]] == ["passed", "unsupported", "missing"]
    with settled():
        folder(runs / cells[2].id, leg("bringup", "graph"))
    assert cli.main(arguments) == 0
    assert cli.main(["matrix", "collect", str(tmp_path / "plan.json"), str(tmp_path / "no"), "-o", "x"]) == 2


def test_what_runs_say_is_harmless_in_a_summary():
    said = "<img src=x onerror=alert(1)> [link](http://x) | `code` $(id)"
    one = collect.CellOutcome(cell(), "not-started", text=said)
    text = table.markdown_table([one])
    assert "<img" not in text and "[link](" not in text
    assert text.count("\n| ") + text.startswith("|") == 3  # the text has made no column of its own
