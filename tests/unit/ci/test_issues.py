"""One issue for each cell that regressed, and none for one that did not."""

from __future__ import annotations

import json

import pytest

from conformance import cli
from conformance.ci import cell_regressions
from conformance.matrix import collect, plan
from conformance.results import document
from tests.support.sample_passing_leg import leg, settled, with_rows
from tests.unit.ci.conftest import issues


def cell(mode="eager"):
    return plan.Cell(f"2.13.0-public-{mode}", "mine", "2.13.0-public", "2.13.0", "public", mode, "bringup")


def failing(found, *places):
    row = {"verdict": "fail", "failures": [{"kind": "value", "message": "no"}], "failure_count": 1}
    found = with_rows(found, {found["results"][place]["id"]: row for place in places})
    return {**found, "exit": 1}


def night(folder, *legs, statuses=None, text=""):
    """The legs as 'gather' leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    with settled():
        found = []
        for one in legs:
            status = (statuses or {}).get(one["mode"], "failed" if one["exit"] else "passed")
            known = {"torch": one["torch"], "counts": dict(one["totals"]), "text": text}
            found.append(collect.CellOutcome(cell(one["mode"]), status, **known))
        for mode, status in (statuses or {}).items():
            if mode not in {one["mode"] for one in legs}:
                found.append(collect.CellOutcome(cell(mode), status, text=text))
        (folder / "matrix.json").write_text(collect.outcomes_json(found))
        if legs:
            document.write(folder / "results.json", document.document(list(legs)))
    return folder


@pytest.fixture
def told(tmp_path, github):
    """Runs the command on one night after another; the issues that there are."""
    count = 0

    def run(*legs, **changes):
        nonlocal count
        count += 1
        after = night(tmp_path / f"night{count}", *legs, **changes)
        (tmp_path / "branch").mkdir(exist_ok=True)
        words = ["--before", str(tmp_path / "branch"), "--backend", "cpu", "--target", "cpu"]
        with settled():
            assert cli.main(["ci", "issues", str(after), *words]) == 0
            night(tmp_path / "branch" / "cpu" / f"2026010{count}-{count}-x", *legs, **changes)
        return issues(github)

    return run


def test_a_night_like_the_one_before_opens_none(told):
    assert told(leg()) == []
    assert told(leg()) == []
    bad = failing(leg(), 0)
    assert len(told(bad)) == 1
    assert len(told(bad)) == 1  # still bad, no worse


def test_an_issue_from_its_first_night_to_its_last(told):
    told(leg())
    (issue,) = told(failing(leg(), 0))
    name = leg()["results"][0]["id"]
    assert issue["title"] == "Regression: cpu, eager, torch 2.13.0-public"
    assert issue["labels"] == ["conformance-regression"] and issue["state"] == "open"
    assert "1 results regressed" in issue["body"] and name.split("@")[0].split("/")[1] in issue["body"]
    assert "https://github.com/owner/name/actions/runs/7" in issue["body"]
    (issue,) = told(failing(leg(), 0, 1))
    assert "1 results regressed" in issue["body"] and issue["state"] == "open"  # the second one
    (issue,) = told(failing(leg(), 0, 1))
    assert issue["state"] == "open" and not issue["comments"]
    (issue,) = told(leg())
    assert issue["state"] == "closed" and "passed again" in issue["comments"][0]


@pytest.mark.parametrize("status", ["missing", "incomplete", "not-started"])
def test_a_cell_that_is_gone_is_a_regression(status, told):
    told(leg(), leg(mode="compile"))
    (issue,) = told(leg(), statuses={"compile": status}, text="it was `[lost](http://x)` @you")
    assert "compile" in issue["title"] and status.replace("-", "") in issue["body"].replace("-", "")
    assert "\n`it was '[lost](http://x)' @you`\n" in issue["body"]  # code mentions no one


def test_a_new_cell_is_no_regression(told):
    told(leg())
    assert told(leg(), failing(leg(mode="compile"), 0)) == []


def test_issues_of_others_are_left_alone(told, github):
    title = "Regression: cpu, eager, torch 2.13.0-public"
    other = {"number": 1, "title": title, "state": "open", "labels": [], "comments": [], "body": "mine"}
    (github / "issues.json").write_text(json.dumps([other]))
    told(leg())
    found = told(failing(leg(), 0))
    assert len(found) == 2 and found[0]["body"] == "mine"
    assert told(leg())[0]["state"] == "open"


def test_one_event_does_not_flood(told, monkeypatch):
    monkeypatch.setattr("conformance.ci.issues.MOST", 1)
    told(leg(), leg(mode="compile"))
    found = told(failing(leg(), 0), failing(leg(mode="compile"), 0))
    assert [one["title"] for one in found][1:] == ["Regression: cpu, 1 further cells"]
    assert "2.13.0-public-compile" in found[1]["body"]


def test_the_run_itself_is_not_the_one_before(tmp_path):
    for name in ("20260101-6-x", "20260102-7-y"):
        (tmp_path / "cpu" / name).mkdir(parents=True)
        (tmp_path / "cpu" / name / "matrix.json").touch()
    names = [run.name for run in cell_regressions.earlier_runs(tmp_path, "cpu")]
    assert names == ["20260102-7-y", "20260101-6-x"]
    assert [run.name for run in cell_regressions.earlier_runs(tmp_path, "cpu", other_than="7")] == names[1:]
    assert cell_regressions.earlier_runs(tmp_path, "hpu-reference") == []


def test_a_night_of_fewer_cells_is_no_clean_slate(told):
    told(leg(), leg(mode="compile"))
    told(leg())  # of one mode only
    (issue,) = told(leg(), failing(leg(mode="compile"), 0))
    assert "compile" in issue["title"]


def test_a_night_without_results_is_no_clean_slate(told, github):
    told(failing(leg(), 0))
    told(statuses={"eager": "missing"})
    (issue,) = told(failing(leg(), 0, 1))
    assert "1 results regressed" in issue["body"]


def test_a_place_that_is_not_there_is_no_first_run(tmp_path, github, capsys):
    after = night(tmp_path / "after", leg())
    words = ["--backend", "cpu", "--target", "cpu"]
    with settled():
        assert cli.main(["ci", "issues", str(after), "--before", str(tmp_path / "typo"), *words]) == 2
        assert "does not exist" in capsys.readouterr().err
        (tmp_path / "branch").mkdir()
        known = ["--before", str(tmp_path / "branch"), "--target", "cpu"]
        assert cli.main(["ci", "issues", str(after), *known, "--backend", "zz"]) == 2
        assert "no backend 'zz'" in capsys.readouterr().err


def test_github_says_no(told, monkeypatch, capsys, tmp_path):
    told(leg())
    monkeypatch.delenv("GH_TOKEN")
    after = night(tmp_path / "after", failing(leg(), 0))
    words = ["--before", str(tmp_path / "branch"), "--backend", "cpu", "--target", "cpu"]
    with settled():
        assert cli.main(["ci", "issues", str(after), *words]) == 2
    assert "gh api --method failed: gh: no token" in capsys.readouterr().err
