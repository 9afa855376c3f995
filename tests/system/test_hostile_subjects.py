"""If a subject damages its worker process, the run still ends, and every other case has a result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import hostile_subjects
from tests.support.cli_process import Run, conformance

SUBJECTS = "good," + ",".join(hostile_subjects.NAMES)


#: The run of all hostile subjects. With one worker, all cases share a process, so a damaged process affects
#: more cases. The nightly run also tests two workers.
@pytest.fixture(
    scope="module",
    params=[1, pytest.param(2, marks=pytest.mark.nightly("one worker is the harder case"))],
    ids=["alone", "two workers"],
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("wild")
    arguments = (
        "run",
        "-n",
        str(request.param),
        "--timeout",
        "5",
        "--level",
        "training",
        "--extra",
        "tests.support.hostile_subjects",
    )
    return conformance(folder, *arguments, subjects=SUBJECTS)


def verdict_of_acts(run: Run, subject: str, dtype: str = "float32") -> str:
    return str(run.rows[f"acts/{subject}0@{dtype}"]["verdict"])


def test_every_planned_result_exists_once(run: Run) -> None:
    leg = run.results["legs"][0]
    ids = [row["id"] for row in leg["results"]]
    assert len(ids) == len(set(ids)) == leg["planned"] == 4 * len(SUBJECTS.split(","))
    assert leg["complete"] and run.code == 1


def test_neighbours_of_hostile_subjects_pass(run: Run) -> None:
    """Subjects that share a worker process with a hostile subject still pass. Some need a second attempt."""
    neighbours = {
        key: row["verdict"] for key, row in run.rows.items() if key.startswith(("beside/", "acts/good"))
    }
    assert set(neighbours.values()) <= {"pass", "flaky"}
    assert sum(verdict == "flaky" for verdict in neighbours.values()) <= 4, neighbours


@pytest.mark.parametrize("subject", ["babbles", "children", "leaks", "threads", "late"])
def test_a_subject_that_only_pollutes_its_process_passes(run: Run, subject: str) -> None:
    assert verdict_of_acts(run, subject) == verdict_of_acts(run, subject, "int64") == "pass"


@pytest.mark.parametrize("subject", ["strange", "unprintable"])
def test_an_unusual_exception_is_an_error_with_its_type(run: Run, subject: str) -> None:
    assert verdict_of_acts(run, subject) == "error"
    failure = run.rows[f"acts/{subject}0@float32"]["failures"][0]
    assert failure["message"].startswith(f"tests.support.hostile_subjects.{subject.capitalize()}")


def test_a_keyboard_interrupt_of_the_backend_does_not_stop_the_run(run: Run) -> None:
    assert (verdict_of_acts(run, "interrupts"), verdict_of_acts(run, "interrupts", "int64")) == (
        "error",
        "pass",
    )
    assert run.rows["acts/interrupts0@float32"]["failures"][0]["message"].startswith("KeyboardInterrupt")
    assert "stopped by the user" not in run.err


@pytest.mark.parametrize("subject", ["odd_words", "long_words", "many_failures"])
def test_messages_of_any_content_and_number_are_limited(run: Run, subject: str) -> None:
    row = run.rows[f"acts/{subject}0@float32"]
    assert row["verdict"] == "fail"
    assert sum(len(failure["message"]) for failure in row["failures"]) < 100_000


@pytest.mark.parametrize("subject", ["deaf", "homeless", "forgets"])
def test_a_subject_that_breaks_its_process_affects_only_its_own_result(run: Run, subject: str) -> None:
    assert verdict_of_acts(run, subject) in ("pass", "error", "crash", "flaky")
    assert verdict_of_acts(run, subject, "int64") in ("pass", "flaky", "error")


def test_all_output_files_are_written(run: Run) -> None:
    for name in ("results.json", "junit.xml", "report.html", "journal.jsonl"):
        assert (run.folder / name).stat().st_size > 0


def test_a_worker_that_takes_too_much_memory_is_replaced(tmp_path: Path) -> None:
    arguments = ("run", "-n", "1", "--level", "core", "--extra", "tests.support.hostile_subjects")
    run = conformance(tmp_path, *arguments, subjects="leaks,good", CONFORMANCE_WORKER_MEMORY="600000000")
    assert {row["verdict"] for row in run.rows.values()} == {"pass"} and len(run.rows) == 4
    events = map(json.loads, (run.folder / "journal.jsonl").read_text().splitlines())
    ends = [event["reason"] for event in events if event["event"] == "worker-end"]
    assert ends.count("memory") >= 1 and run.results["legs"][0]["complete"]
