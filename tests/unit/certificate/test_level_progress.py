"""The first section of a report page: the level that a leg holds, the causes that block the next level, and
the changes since the previous run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.certificate import level_progress
from conformance.commands import common
from conformance.report import html
from conformance.report.headline import LevelProgress
from conformance.results import document
from tests.support import sample_passing_leg
from tests.support.sample_passing_leg import Leg

OFF = {"verdict": "fail", "failures": [{"kind": "exception", "message": "the call raised RuntimeError: off"}]}


def level_and_holds(*legs: Leg) -> list[tuple[int, str, bool]]:
    return [
        (progress.leg, progress.level, progress.holds) for progress in level_progress.level_progress_of(legs)
    ]


def with_failures(leg: Leg, count: int) -> Leg:
    names = [row["id"] for row in leg["results"] if row["id"].startswith("value/")][:count]
    return sample_passing_leg.with_rows(leg, dict.fromkeys(names, OFF))


def test_the_broadest_held_level_and_the_next_level() -> None:
    assert level_and_holds(sample_passing_leg.leg("bringup")) == [(0, "bringup", True)]
    assert level_and_holds(sample_passing_leg.leg("core")) == [(0, "core", True)]
    core = sample_passing_leg.leg("core")
    later = [row["id"] for row in core["results"] if row["id"].startswith("layout/")][:1]
    assert level_and_holds(sample_passing_leg.with_rows(core, dict.fromkeys(later, OFF))) == [
        (0, "bringup", True), (0, "core", False)
    ]  # fmt: skip
    small = {row["id"] for row in sample_passing_leg.leg("bringup")["results"]}
    early = [row["id"] for row in core["results"] if row["id"] in small][:1]
    assert level_and_holds(
        sample_passing_leg.with_rows(sample_passing_leg.leg("core"), dict.fromkeys(early, OFF))
    ) == [(0, "bringup", False)]
    failing = with_failures(sample_passing_leg.leg("bringup"), 1)
    assert level_and_holds(sample_passing_leg.leg("bringup"), failing) == [
        (0, "bringup", True), (1, "bringup", False)
    ]  # fmt: skip


def test_a_smoke_run_and_an_unknown_torch_have_no_level() -> None:
    leg = sample_passing_leg.leg("bringup")
    assert level_and_holds(leg | {"level": "smoke"}) == []
    assert level_and_holds(leg | {"torch": "1.0.0"}) == []


def test_missing_results_are_grouped_by_cause() -> None:
    leg = with_failures(sample_passing_leg.leg("bringup"), 3)
    removed_row = next(row for row in leg["results"] if row["verdict"] == "pass")
    leg["results"].remove(removed_row)
    (progress,) = level_progress.level_progress_of([leg])
    assert (progress.due - progress.passed, progress.missing) == (4, 4)
    assert [(blocker.count, blocker.failure_text) for blocker in progress.blockers] == [
        (3, "the call raised RuntimeError: off"),
        (1, "the run has no row of this result"),
    ]
    assert progress.blockers[1].example == removed_row["id"]
    assert progress.unfit  # because the totals do not follow from the rows


def test_many_causes_are_counted_beyond_the_first_dozen() -> None:
    leg = sample_passing_leg.leg("core")
    names = [row["id"] for row in leg["results"] if row["id"].startswith("value/")][:20]
    rows = {
        name: {
            "verdict": "fail",
            "failures": [{"kind": "exception", "message": f"it raised RuntimeError: {'x' * i}."}],
        }
        for i, name in enumerate(names, 1)
    }
    progress = level_progress.level_progress_of([sample_passing_leg.with_rows(leg, rows)])[-1]
    as_json = progress.to_json()
    assert (len(as_json["blockers"]), as_json["more"]) == (12, 8)  # type: ignore[arg-type]


def report_text(path: Path, before: list[Leg], *legs: Leg) -> str:
    html.write_page(
        path / "report.html",
        document.results_document(list(legs)),
        opening=common.report_opening(legs, before),
    )
    script = Path(__file__).parents[2] / "browser" / "page_in_node.js"
    command = ["node", str(script), str(path / "report.html"), "overview"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the page's script")
def test_the_page_opens_with_level_causes_and_changes(tmp_path: Path) -> None:
    before, now = sample_passing_leg.leg("bringup"), with_failures(sample_passing_leg.leg("bringup"), 2)
    text = report_text(tmp_path, [before], sample_passing_leg.with_recounted_totals(now))
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    plain_titles = [re.sub("<[^>]*>", "", title) for title in titles]
    order = [plain_titles.index(title) for title in ("Level", "Unexpected, by cause", "Since the last run")]
    assert order == sorted(order)
    assert "<b>2 results are missing for bringup</b>" in text
    assert "the call raised RuntimeError: off" in text
    assert "<b>2 worse</b>" in text and "pass → fail" in text
    fixed = report_text(tmp_path, [now], before)
    assert "<b>holds bringup</b>" in fixed and "<b>2 fixed</b>" in fixed
    assert "Every verdict is as it was." in report_text(tmp_path, [before], before)
    first = report_text(tmp_path, [], before)
    assert "Since the last run" not in first


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the page's script")
def test_a_restricted_run_shows_why_it_gives_no_level(tmp_path: Path) -> None:
    text = report_text(tmp_path, [], sample_passing_leg.leg("bringup") | {"selection": "add", "left_out": 3})
    assert "This run gives no level: the run was restricted with -k &#39;add&#39;." in text
    assert "missing for" not in text


def test_runs_of_different_modes_are_not_compared() -> None:
    eager, graph = sample_passing_leg.leg("bringup"), sample_passing_leg.leg("bringup", mode="graph")
    assert common.report_opening([graph], [eager]).changes is None
    assert common.report_opening([eager], [eager]).changes is not None


def test_an_unreadable_earlier_run_is_ignored(tmp_path: Path) -> None:
    assert common.legs_of_replaced_run(tmp_path) == []
    (tmp_path / "results.json").write_text("{")
    assert common.legs_of_replaced_run(tmp_path) == []
    sample_passing_leg.write_output_folder(tmp_path, sample_passing_leg.leg("bringup"))
    assert len(common.legs_of_replaced_run(tmp_path)) == 1


def test_progress_is_json() -> None:
    json.dumps(LevelProgress(0, "core", 3, 2, 1, False, ("why",), ()).to_json())
