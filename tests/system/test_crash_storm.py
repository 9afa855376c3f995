"""An operator or a property that repeatedly ends or blocks its process costs few processes, and other results
run meanwhile. If an operator passes when it is retried, or a property passes for other operators, all results
of the operator or the property run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.process_control.watchdog import TIMEOUT_MARK
from tests.support.cli_process import Run, conformance, environment_with_subjects, write_bare_target

CRASHING = 3
SUBJECTS = 11


def lost_workers(run: Run) -> list[object]:
    """Return the journal events of the workers that the runner recorded as lost."""
    events = map(json.loads, (run.folder / "journal.jsonl").read_text().splitlines())
    return [event for event in events if event["event"] == "lost"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("storm")
    return conformance(
        folder, "run", "-n", "2", subjects="always_crash,good", ARTIFICIAL_COPIES=str(CRASHING)
    )


def test_the_other_results_of_the_operator_are_lost_with_it(run: Run) -> None:
    rows = {name: row for name, row in run.rows.items() if "/always_crash0@" in name}
    assert len(rows) == 8 and {row["verdict"] for row in rows.values()} == {"crash"}
    ran = {name for name, row in rows.items() if "blocked_by" not in row}
    assert len({name.partition("/")[0] for name in ran}) >= 3
    assert len({name.partition("@")[2] for name in ran}) == 2
    for row in rows.values():
        if "blocked_by" in row:
            assert row["blocked_by"] in ran
            assert row["failures"][0]["message"].startswith("not run: always_crash0 ended its process")


def test_the_run_goes_on_and_is_complete(run: Run) -> None:
    assert run.results["complete"] and run.results["totals"] == {"crash": 8 * CRASHING, "pass": 4 * CRASHING}


def test_each_operator_costs_four_processes(run: Run) -> None:
    assert len(lost_workers(run)) == 4 * CRASHING  # three results, and one that runs alone


@pytest.mark.nightly("waits for four time limits of 25 s; the scheduler's unit tests cover waiting workers")
def test_other_results_run_while_results_hang(tmp_path: Path) -> None:
    """Both workers hang at first, so only additional workers can run the other results."""
    arguments = ("run", "-n", "2", "--timeout", "25", "--profile")
    run = conformance(tmp_path, *arguments, subjects="hang,good", ARTIFICIAL_COPIES="2")
    assert run.results["complete"] and run.results["totals"] == {"timeout": 2, "pass": 14}
    events = map(json.loads, (run.folder / "journal.jsonl").read_text().splitlines())
    began = [event["began"] for event in events if event["event"] == "time" and "/good" in event["id"]]
    tracebacks = (run.folder / "tracebacks").iterdir()
    timeouts = [file.stat().st_mtime for file in tracebacks if TIMEOUT_MARK in file.read_text()]
    assert len(began) == 8 and len(timeouts) >= 4 and max(began) < min(timeouts)


@pytest.fixture(scope="module")
def run_with_crashing_property(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("property")
    return conformance(folder, "run", "-n", "2", subjects="crash_beside", ARTIFICIAL_COPIES=str(SUBJECTS))


@pytest.mark.nightly("the loss of an operator is tested in every run")
def test_the_other_results_of_a_property_are_lost_with_it(run_with_crashing_property: Run) -> None:
    rows = {name: row for name, row in run_with_crashing_property.rows.items() if name.startswith("beside/")}
    verdicts = {(name.rpartition("@")[2], row["verdict"]) for name, row in rows.items()}
    assert verdicts == {("float32", "crash"), ("int64", "pass")}  # the property crashes in one dtype only
    inherited = [row for row in rows.values() if "blocked_by" in row]
    message = "not run: beside ended its process in all results of a sample, such as beside/crash_beside"
    assert inherited and all(row["failures"][0]["message"].startswith(message) for row in inherited)
    assert all("blocked_by" not in rows[row["blocked_by"]] for row in inherited)


@pytest.mark.nightly("the loss of an operator is tested in every run")
def test_a_lost_property_leaves_the_other_properties_alone(run_with_crashing_property: Run) -> None:
    assert run_with_crashing_property.results["complete"]
    assert run_with_crashing_property.results["totals"] == {"crash": SUBJECTS, "pass": 3 * SUBJECTS}


@pytest.mark.nightly("the loss of an operator is tested in every run")
def test_a_property_costs_few_processes(run_with_crashing_property: Run) -> None:
    lost = lost_workers(run_with_crashing_property)
    # In each of two attempts: five subjects in a row, up to four subjects that two workers had begun by then,
    # and a sample of three.
    assert 2 * (5 + 3) <= len(lost) <= 2 * (5 + 4 + 3)


@pytest.mark.nightly("the loss of an operator is tested in every run")
def test_a_property_that_passes_for_other_operators_runs_to_its_end(tmp_path: Path) -> None:
    run = conformance(tmp_path, "run", "-n", "2", subjects="crash_beside,good", ARTIFICIAL_COPIES="5")
    verdicts = {name: row["verdict"] for name, row in run.rows.items() if name.startswith("beside/good")}
    assert len(verdicts) == 10 and set(verdicts.values()) == {"pass"}


def test_an_operator_that_passes_when_it_is_retried_runs_to_its_end(tmp_path: Path) -> None:
    run = conformance(tmp_path, "run", "-n", "2", subjects="crash_twice,good")
    verdicts = {name: row["verdict"] for name, row in run.rows.items() if "crash_twice" in name}
    assert verdicts == {
        "acts/crash_twice0@float32": "flaky",
        "acts/crash_twice0@int64": "flaky",
        "beside/crash_twice0@float32": "pass",
        "beside/crash_twice0@int64": "pass",
    }


def run_with_lowest_loss_limit(folder: Path, subjects: str) -> Run:
    """Run artificial subjects with the lowest limit of lost workers in a row, which is the
    number of workers.
    """
    program = (
        "from conformance.runner import pytest_rounds; pytest_rounds.MAX_LOSSES = 0;"
        "from conformance.cli import main; raise SystemExit(main())"
    )
    arguments = ["run", "--target", write_bare_target(folder), "-n", "2", "-o", str(folder / "out")]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, "--extra", "tests.support.misbehaving_subjects"],
        cwd=folder,
        # Without PYTHONHASHSEED, the command restarts in a new process, which has the usual limit.
        env=environment_with_subjects(folder, subjects, ARTIFICIAL_COPIES="3", PYTHONHASHSEED="0"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Run(done, folder / "out")


@pytest.mark.nightly(
    "loses more than twenty workers; every run tests the stop of a run in which nothing passes"
)
def test_many_lost_workers_do_not_stop_a_run_whose_device_works(tmp_path: Path) -> None:
    run = run_with_lowest_loss_limit(tmp_path, "good,always_crash")
    assert run.results["complete"] and run.results["totals"] == {"crash": 24, "pass": 12}
    assert (run.folder / "logs" / "passed-result.txt").exists()


def test_many_lost_workers_stop_a_run_in_which_nothing_passes(tmp_path: Path) -> None:
    run = run_with_lowest_loss_limit(tmp_path, "always_crash")
    assert run.code == 3 and not run.results["complete"]
    assert "workers in a row ended without a passing result" in run.out
