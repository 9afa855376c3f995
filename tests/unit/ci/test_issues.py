"""``conformance ci issues`` opens one issue for each matrix cell that regressed, and no other issue."""

from __future__ import annotations

import json

import pytest

from conformance import cli
from conformance.ci import cell_regressions
from conformance.matrix import collect, plan
from conformance.results import document
from tests.support.sample_passing_leg import fixed_suite_digest, leg, with_rows
from tests.unit.ci.conftest import issues


def make_cell(mode="eager"):
    return plan.Cell(f"2.13.0-public-{mode}", "mine", "2.13.0-public", "2.13.0", "public", mode, "bringup")


def with_failures(base_leg, *failing_indices):
    row = {"verdict": "fail", "failures": [{"kind": "value", "message": "no"}], "failure_count": 1}
    base_leg = with_rows(base_leg, {base_leg["results"][index]["id"]: row for index in failing_indices})
    return {**base_leg, "exit": 1}


def write_nightly_run(folder, *legs, statuses=None, text=""):
    """Write the legs of a nightly run as ``conformance ci gather`` writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    with fixed_suite_digest():
        outcomes = []
        for leg_of_run in legs:
            status = (statuses or {}).get(leg_of_run["mode"], "failed" if leg_of_run["exit"] else "passed")
            fields = {"torch": leg_of_run["torch"], "counts": dict(leg_of_run["totals"]), "text": text}
            outcomes.append(
                collect.CellOutcome(make_cell(leg_of_run["mode"]), collect.CellStatus(status), **fields)
            )
        for mode, status in (statuses or {}).items():
            if mode not in {leg_of_run["mode"] for leg_of_run in legs}:
                outcomes.append(collect.CellOutcome(make_cell(mode), collect.CellStatus(status), text=text))
        (folder / "matrix.json").write_text(collect.outcomes_json(outcomes))
        if legs:
            document.write_results(folder / "results.json", document.results_document(list(legs)))
    return folder


@pytest.fixture
def issues_after_night(tmp_path, fake_github_folder):
    """Return a function that writes the legs of the next night, runs ``conformance ci issues``, and returns
    all issues.
    """
    count = 0

    def issues_after_next_night(*legs, **changes):
        nonlocal count
        count += 1
        after = write_nightly_run(tmp_path / f"night{count}", *legs, **changes)
        (tmp_path / "branch").mkdir(exist_ok=True)
        options = ["--before", str(tmp_path / "branch"), "--backend", "cpu", "--target", "cpu"]
        with fixed_suite_digest():
            assert cli.main(["ci", "issues", str(after), *options]) == 0
            write_nightly_run(tmp_path / "branch" / "cpu" / f"2026010{count}-{count}-x", *legs, **changes)
        return issues(fake_github_folder)

    return issues_after_next_night


def test_an_unchanged_night_opens_no_issue(issues_after_night):
    assert issues_after_night(leg()) == []
    assert issues_after_night(leg()) == []
    bad = with_failures(leg(), 0)
    assert len(issues_after_night(bad)) == 1
    assert len(issues_after_night(bad)) == 1  # the same result still fails, and no other result regressed


def test_an_issue_is_opened_updated_and_closed(issues_after_night):
    issues_after_night(leg())
    (issue,) = issues_after_night(with_failures(leg(), 0))
    name = leg()["results"][0]["id"]
    assert issue["title"] == "Regression: cpu, eager, torch 2.13.0-public"
    assert issue["labels"] == ["conformance-regression"] and issue["state"] == "open"
    assert "1 results regressed" in issue["body"] and name.split("@")[0].split("/")[1] in issue["body"]
    assert "https://github.com/owner/name/actions/runs/7" in issue["body"]
    (issue,) = issues_after_night(with_failures(leg(), 0, 1))
    assert "1 results regressed" in issue["body"] and issue["state"] == "open"  # one more result regressed
    (issue,) = issues_after_night(with_failures(leg(), 0, 1))
    assert issue["state"] == "open" and not issue["comments"]
    (issue,) = issues_after_night(leg())
    assert issue["state"] == "closed" and "passed again" in issue["comments"][0]


@pytest.mark.parametrize("status", ["missing", "incomplete", "not-started"])
def test_a_cell_without_results_is_a_regression(status, issues_after_night):
    issues_after_night(leg(), leg(mode="compile"))
    (issue,) = issues_after_night(leg(), statuses={"compile": status}, text="it was `[lost](http://x)` @you")
    assert "compile" in issue["title"] and status.replace("-", "") in issue["body"].replace("-", "")
    assert (
        "\n`it was '[lost](http://x)' @you`\n" in issue["body"]
    )  # GitHub sends no notification for a mention in code formatting


def test_a_new_failing_cell_is_not_a_regression(issues_after_night):
    issues_after_night(leg())
    assert issues_after_night(leg(), with_failures(leg(mode="compile"), 0)) == []


def test_issues_of_other_authors_are_unchanged(issues_after_night, fake_github_folder):
    title = "Regression: cpu, eager, torch 2.13.0-public"
    unrelated = {"number": 1, "title": title, "state": "open", "labels": [], "comments": [], "body": "mine"}
    (fake_github_folder / "issues.json").write_text(json.dumps([unrelated]))
    issues_after_night(leg())
    issues = issues_after_night(with_failures(leg(), 0))
    assert len(issues) == 2 and issues[0]["body"] == "mine"
    assert issues_after_night(leg())[0]["state"] == "open"


def test_the_number_of_issues_per_night_is_limited(issues_after_night, monkeypatch):
    monkeypatch.setattr("conformance.ci.issues.MOST", 1)
    issues_after_night(leg(), leg(mode="compile"))
    issues = issues_after_night(with_failures(leg(), 0), with_failures(leg(mode="compile"), 0))
    assert [issue["title"] for issue in issues][1:] == ["Regression: cpu, 1 further cells"]
    assert "2.13.0-public-compile" in issues[1]["body"]


def test_a_run_is_not_compared_with_itself(tmp_path):
    for name in ("20260101-6-x", "20260102-7-y"):
        (tmp_path / "cpu" / name).mkdir(parents=True)
        (tmp_path / "cpu" / name / "matrix.json").touch()
    names = [run.name for run in cell_regressions.earlier_runs(tmp_path, "cpu")]
    assert names == ["20260102-7-y", "20260101-6-x"]
    assert [run.name for run in cell_regressions.earlier_runs(tmp_path, "cpu", exclude_run_id="7")] == names[
        1:
    ]
    assert cell_regressions.earlier_runs(tmp_path, "hpu-reference") == []


def test_a_night_with_fewer_cells_does_not_hide_a_regression(issues_after_night):
    issues_after_night(leg(), leg(mode="compile"))
    issues_after_night(leg())  # a night with one mode only
    (issue,) = issues_after_night(leg(), with_failures(leg(mode="compile"), 0))
    assert "compile" in issue["title"]


def test_a_night_without_results_does_not_close_an_issue(issues_after_night, fake_github_folder):
    issues_after_night(with_failures(leg(), 0))
    issues_after_night(statuses={"eager": "missing"})
    (issue,) = issues_after_night(with_failures(leg(), 0, 1))
    assert "1 results regressed" in issue["body"]


def test_a_missing_results_folder_is_not_a_first_run(tmp_path, fake_github_folder, capsys):
    after = write_nightly_run(tmp_path / "after", leg())
    options = ["--backend", "cpu", "--target", "cpu"]
    with fixed_suite_digest():
        assert cli.main(["ci", "issues", str(after), "--before", str(tmp_path / "typo"), *options]) == 2
        assert "does not exist" in capsys.readouterr().err
        (tmp_path / "branch").mkdir()
        options = ["--before", str(tmp_path / "branch"), "--target", "cpu"]
        assert cli.main(["ci", "issues", str(after), *options, "--backend", "zz"]) == 2
        assert "no backend 'zz'" in capsys.readouterr().err


def test_an_error_of_github_is_reported(issues_after_night, monkeypatch, capsys, tmp_path):
    issues_after_night(leg())
    monkeypatch.delenv("GH_TOKEN")
    after = write_nightly_run(tmp_path / "after", with_failures(leg(), 0))
    options = ["--before", str(tmp_path / "branch"), "--backend", "cpu", "--target", "cpu"]
    with fixed_suite_digest():
        assert cli.main(["ci", "issues", str(after), *options]) == 2
    assert "gh api --method failed: gh: no token" in capsys.readouterr().err
