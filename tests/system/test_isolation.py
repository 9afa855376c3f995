"""A crash, a hang or a broken device costs one result. Every other result is still computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_process import Run, conformance

SUBJECTS = (
    "good,segfault,crash_once,hang_with_gil,poison,silent_poison,vacuous,error,leaves,grad_off,crash_after"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("isolation")
    return conformance(folder, "run", "-n", "2", "--timeout", "2", "--level", "core", subjects=SUBJECTS)


def verdicts_of_acts(run: Run, subject: str) -> tuple[str, str]:
    """Return the verdicts of the property ``acts`` for a subject, in float32 and int64."""
    return tuple(run.rows[f"acts/{subject}0@{dtype}"]["verdict"] for dtype in ("float32", "int64"))  # type: ignore[return-value]


def failure_kinds(run: Run, result_id: str) -> list[str]:
    return [failure["kind"] for failure in run.rows[result_id].get("failures", [])]


def test_every_planned_result_exists(run: Run) -> None:
    leg = run.results["legs"][0]
    assert leg["planned"] == len(leg["results"]) == 2 * len(SUBJECTS.split(","))
    assert leg["missing"]["count"] == 0
    assert run.results["complete"] is True
    assert run.code == run.results["exit"] == 1


def test_a_good_subject_passes_among_misbehaving_subjects(run: Run) -> None:
    assert verdicts_of_acts(run, "good") == ("pass", "pass")


def test_a_crash_costs_one_dtype(run: Run) -> None:
    assert verdicts_of_acts(run, "segfault") == ("crash", "pass")
    assert failure_kinds(run, "acts/segfault0@float32") == ["crash"]
    assert [attempt["attempt"] for attempt in run.rows["acts/segfault0@float32"]["attempts"]] == [1, 2]


def test_a_crash_reports_the_signal_and_the_source_line(run: Run) -> None:
    message = run.rows["acts/segfault0@float32"]["failures"][0]["message"]
    assert "Segmentation fault" in message.splitlines()[0]
    assert "in segfault" in message
    assert "watchdog.py" not in message


def test_a_crash_that_does_not_happen_again_is_flaky(run: Run) -> None:
    assert sorted(verdicts_of_acts(run, "crash_once")) == ["flaky", "pass"]


def test_a_hang_with_the_gil_held_is_a_timeout_and_tried_twice(run: Run) -> None:
    assert verdicts_of_acts(run, "hang_with_gil") == ("timeout", "pass")
    row = run.rows["acts/hang_with_gil0@float32"]
    assert [attempt["verdict"] for attempt in row["attempts"]] == ["timeout", "timeout"]
    assert row["failures"][0]["message"].startswith("took longer than 2 s\n")
    assert "in hang_holding_gil" in row["failures"][0]["message"]


def test_a_broken_device_is_reported_for_the_case_that_broke_it(run: Run) -> None:
    assert verdicts_of_acts(run, "poison") == ("fail", "fail")
    assert failure_kinds(run, "acts/poison0@float32") == ["value", "state"]
    assert (
        "left the device unusable: add returned" in run.rows["acts/poison0@float32"]["failures"][1]["message"]
    )
    assert failure_kinds(run, "acts/poison0@int64") == ["value"]


def test_a_failure_after_a_silently_broken_device_is_retried_in_a_new_process(tmp_path: Path) -> None:
    """``silent_poison`` breaks the device and passes. The next result does not pass. The runner then finds
    that the device is broken, and runs this result again in a new process.

    The run has one worker. With two workers, the worker with the broken device might get no further case.
    """
    arguments = ("run", "-n", "1", "--timeout", "2", "--level", "core")
    run = conformance(tmp_path, *arguments, subjects="silent_poison,vacuous")
    lines = (run.folder / "journal.jsonl").read_text().splitlines()
    probes = [event for event in map(json.loads, lines) if event["event"] == "probe"]
    failed = {event["id"] for event in probes if event["state"] == "failed"}
    (blamed,) = failed
    assert blamed.startswith("acts/vacuous0@")
    assert len(run.rows[blamed]["attempts"]) == 2
    assert run.rows[blamed]["verdict"] != "pass"


def test_a_result_without_a_comparison_is_vacuous(run: Run) -> None:
    assert verdicts_of_acts(run, "vacuous") == ("vacuous", "vacuous")
    assert "vacuous" in failure_kinds(run, "acts/vacuous0@int64")


@pytest.mark.parametrize("subject", ["error", "leaves", "grad_off"])
def test_a_fault_of_the_suite_is_an_error(run: Run, subject: str) -> None:
    assert verdicts_of_acts(run, subject) == ("error", "error")
    assert "harness" in failure_kinds(run, f"acts/{subject}0@float32")


def test_an_error_message_contains_the_traceback(run: Run) -> None:
    message = run.rows["acts/error0@int64"]["failures"][0]["message"]
    assert message.startswith("KeyError: 'a fault of the suite' left the property")
    assert "misbehaving_subjects.py" in message


def test_changed_global_state_is_reported_and_restored(run: Run) -> None:
    message = run.rows["acts/grad_off0@int64"]["failures"][0]["message"]
    assert message.startswith("property 'acts' left gradient mode changed")


def test_a_crash_between_results_is_attributed_to_the_previous_result(run: Run) -> None:
    assert "flaky" in verdicts_of_acts(run, "crash_after")
