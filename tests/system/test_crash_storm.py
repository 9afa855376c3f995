"""An operator that ends its process again and again costs few processes, and the run goes on. An operator
that passes when it is retried runs to its end.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_process import Run, conformance

CRASHING = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("storm")
    return conformance(folder, "run", "-n", "2", sham="always_crash,good", SHAM_COPIES=str(CRASHING))


def test_the_other_results_of_the_operator_are_lost_with_it(run: Run) -> None:
    rows = {name: row for name, row in run.rows.items() if "/always_crash0@" in name}
    assert {row["verdict"] for row in rows.values()} == {"crash"}
    first = "acts/always_crash0@float32"
    for name in ("beside/always_crash0@float32", "beside/always_crash0@int64"):
        assert rows[name]["blocked_by"] == first
        assert rows[name]["failures"][0]["message"].startswith("not run: always_crash0 ended its process")
    assert "blocked_by" not in rows[first]


def test_the_run_goes_on_and_is_complete(run: Run) -> None:
    assert run.results["complete"] and run.results["totals"] == {"crash": 4 * CRASHING, "pass": 4 * CRASHING}


def test_each_operator_costs_three_processes(run: Run) -> None:
    events = [json.loads(line) for line in (run.folder / "journal.jsonl").read_text().splitlines()]
    lost = [event for event in events if event["event"] == "lost"]
    assert len(lost) == 3 * CRASHING  # twice in a row, and once more alone


def test_an_operator_that_passes_when_it_is_retried_runs_to_its_end(tmp_path: Path) -> None:
    run = conformance(tmp_path, "run", "-n", "2", sham="crash_twice,good")
    verdicts = {name: row["verdict"] for name, row in run.rows.items() if "crash_twice" in name}
    assert verdicts == {
        "acts/crash_twice0@float32": "flaky",
        "acts/crash_twice0@int64": "flaky",
        "beside/crash_twice0@float32": "pass",
        "beside/crash_twice0@int64": "pass",
    }
