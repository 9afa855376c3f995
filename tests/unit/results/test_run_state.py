"""``results.run_state`` rebuilds the state of a run from journal events, and chooses the final attempt of
each result.
"""

from __future__ import annotations

import pytest

from conformance.results.final_verdicts import final_rows
from conformance.results.run_state import LossGroup, RunState, final_attempt, unusable_device_message
from tests.support.sample_legs import expectation, row, run_leg


def test_the_message_about_an_unusable_device() -> None:
    assert unusable_device_message("add gave 3") == "left the device unusable: add gave 3"


@pytest.mark.parametrize(
    ("attempts", "verdict"),
    [
        (["pass"], "pass"),
        (["fail"], "fail"),
        (["crash", "pass"], "flaky"),
        (["timeout", "unsupported"], "flaky"),
        (["timeout", "crash"], "crash"),
        (["crash", "timeout"], "crash"),
        (["pass", "crash"], "crash"),
        (["pass", "crash", "pass"], "flaky"),
        (["vacuous", "fail"], "fail"),
    ],
)
def test_the_final_verdict_of_several_attempts(attempts: list[str], verdict: str) -> None:
    final_verdict, final_row = final_attempt([row("p/s@d", attempt) for attempt in attempts])
    assert final_verdict == verdict
    assert (final_row["verdict"] == verdict) or verdict == "flaky"


def test_an_attempt_in_a_new_process_replaces_an_attempt_on_an_unusable_device() -> None:
    attempts = [row("p/s@d", "fail", "value", "state"), row("p/s@d", "vacuous", "vacuous", attempt=2)]
    verdict, final_row = final_attempt(attempts)
    assert verdict == "vacuous"
    assert [failure["kind"] for failure in final_row["failures"]] == ["vacuous", "state"]
    attempts[1] = row("p/s@d", "fail", "value", attempt=2)
    rows = final_rows({"p/s@d": attempts}, [expectation("p/s@d", "value")]).rows
    assert rows["p/s@d"]["verdict"] == "fail", "the expectation of a wrong value excused the broken device"


def test_a_process_that_died_during_the_probe_left_the_device_unusable() -> None:
    events = (
        {"event": "probe", "worker": "w", "id": "p/s0@d", "state": "start"},
        {"event": "lost", "worker": "w"},
    )
    judged_leg = run_leg("unsupported", events=events)
    assert judged_leg["results"][0]["verdict"] == "fail"
    assert judged_leg["results"][0]["failures"][-1]["kind"] == "state"


def test_a_malformed_event_is_reported_and_skipped() -> None:
    judged_leg = run_leg("pass", events=({"event": "result", "worker": "w"}, {"event": "unheard-of"}))
    assert judged_leg["problems"] == ["event 'result' of the journal is malformed: KeyError('result')"]
    assert judged_leg["exit"] == 0


@pytest.mark.parametrize(
    ("attempts", "verdict"),
    [
        (["fail", "pass", "pass"], "flaky"),
        (["fail", "pass", "fail", "pass"], "flaky"),
        (["fail", "pass", "fail"], "fail"),
    ],
)
def test_later_attempts_of_a_flaky_result(attempts: list[str], verdict: str) -> None:
    assert final_attempt([row("p/s@d", attempt) for attempt in attempts])[0] == verdict


def test_a_worker_name_may_be_reused_after_a_resume() -> None:
    run_state = RunState()
    for event_name in ("worker", "resume", "worker"):
        run_state.apply({"event": event_name, "worker": "gw0-7"})
    assert [worker.name for worker in run_state.unrecorded_lost_workers()] == ["gw0-7"], (
        "the second worker with this name is not tracked"
    )


def test_a_result_whose_probe_was_interrupted_runs_again() -> None:
    run_state = RunState()
    result = {"event": "result", "worker": "w", "result": row("p/s@d", "unsupported")}
    run_state.apply({"event": "worker", "worker": "w"})
    run_state.apply(result)
    run_state.apply({"event": "probe", "worker": "w", "id": "p/s@d", "state": "start"})
    run_state.apply({"event": "resume"})
    assert (run_state.unprobed, run_state.unrecorded_lost_workers()) == ({"p/s@d"}, [])
    run_state.apply(result)
    assert not run_state.unprobed


def lost_run(*rows: tuple[str, str, bool]) -> RunState:
    """Return a run with results of operator ``s``. Each row has a result id, a verdict, and whether the lost
    worker was reported as independent of other workers.
    """
    state = RunState()
    dtypes = ["float32", "float64", "int64"]  # floating-point and integer
    cases = [["operator", name, "s", 0] for name in "abcd"]
    state.apply({"event": "plan", "dtypes": [dtypes], "cases": cases})  # type: ignore[typeddict-item]
    for number, (name, verdict, independent) in enumerate(rows):
        worker = f"gw{number}"
        state.apply({"event": "worker", "worker": worker, "pid": number})
        state.apply({"event": "dtype", "worker": worker, "id": name, "attempt": 1})
        if independent:
            state.apply({"event": "independent", "worker": worker})
        state.apply({"event": "result", "worker": worker, "result": {"id": name, "verdict": verdict}})  # type: ignore[typeddict-item]
    return state


@pytest.mark.parametrize(
    ("rows", "confirmed"),
    [
        ([("a/s@float32", "crash", False), ("b/s@int64", "crash", False)], set()),
        (
            [("a/s@float32", "crash", False), ("b/s@int64", "crash", False), ("c/s@int64", "crash", False)],
            {LossGroup("operator", "s")},
        ),
        # Only floating-point dtypes were lost, so integer dtypes may pass.
        (
            [
                ("a/s@float32", "crash", False),
                ("b/s@float64", "crash", False),
                ("c/s@float32", "crash", False),
            ],
            set(),
        ),
        (
            [
                ("a/s@float32", "crash", False),
                ("b/s@float32", "crash", False),
                ("c/s@float32", "crash", False),
            ],
            {LossGroup("operator", "s", dtype="float32")},
        ),
        # A result in another dtype has finished.
        (
            [
                ("d/s@float64", "fail", False),
                ("a/s@float32", "crash", False),
                ("b/s@int64", "crash", False),
                ("c/s@int64", "crash", False),
            ],
            set(),
        ),
        # Results of other workers may have blocked the device.
        (
            [
                ("a/s@float32", "timeout", False),
                ("b/s@int64", "timeout", False),
                ("c/s@int64", "timeout", True),
            ],
            set(),
        ),
        (
            [
                ("a/s@float32", "timeout", True),
                ("b/s@int64", "timeout", True),
                ("c/s@int64", "timeout", True),
            ],
            {LossGroup("operator", "s")},
        ),
    ],
)
def test_confirmed_groups(rows: list[tuple[str, str, bool]], confirmed: set[LossGroup]) -> None:
    assert set(lost_run(*rows).confirmed_groups()) == confirmed


def test_results_that_hung_twice_beside_others_run_alone() -> None:
    state = lost_run(("a/s@float32", "timeout", False), ("b/s@int64", "timeout", True))
    for number, name in enumerate(("a/s@float32", "b/s@int64")):
        row = {"id": name, "verdict": "timeout", "attempt": 2}
        state.apply({"event": "result", "worker": f"again{number}", "result": row})  # type: ignore[typeddict-item]
    assert state.results_to_retry_alone() == ["a/s@float32"]
