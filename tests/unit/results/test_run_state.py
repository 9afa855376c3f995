"""The ledger of a run: attempts settle, and damaged events cost only themselves."""

from __future__ import annotations

import pytest

from conformance.results.final_verdicts import decide
from conformance.results.run_state import Ledger, final_attempt, unusable
from tests.support.sample_legs import expected, row, run_leg


def test_words_of_a_poisoned_device() -> None:
    assert unusable("add gave 3") == "left the device unusable: add gave 3"


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
def test_attempts_settle(attempts: list[str], verdict: str) -> None:
    found, shown = final_attempt([row("p/s@d", attempt) for attempt in attempts])
    assert found == verdict
    assert (shown["verdict"] == verdict) or verdict == "flaky"


def test_a_blamed_attempt_gives_way_to_one_in_a_fresh_process_but_is_not_forgotten() -> None:
    attempts = [row("p/s@d", "fail", "value", "state"), row("p/s@d", "vacuous", "vacuous", attempt=2)]
    verdict, shown = final_attempt(attempts)
    assert verdict == "vacuous"
    assert [failure["kind"] for failure in shown["failures"]] == ["vacuous", "state"]
    attempts[1] = row("p/s@d", "fail", "value", attempt=2)
    rows = decide({"p/s@d": attempts}, [expected("p/s@d", "value")]).rows
    assert rows["p/s@d"]["verdict"] == "fail", "the broken device must not be excused as a wrong value"


def test_a_process_that_died_in_the_probe_left_the_device_unusable() -> None:
    events = (
        {"event": "probe", "worker": "w", "id": "p/s0@d", "state": "start"},
        {"event": "lost", "worker": "w"},
    )
    found = run_leg("unsupported", events=events)
    assert found["results"][0]["verdict"] == "fail"
    assert found["results"][0]["failures"][-1]["kind"] == "state"


def test_a_malformed_event_is_a_problem_and_not_the_end() -> None:
    found = run_leg("pass", events=({"event": "result", "worker": "w"}, {"event": "unheard-of"}))
    assert found["problems"] == ["event 'result' of the journal is malformed: KeyError('result')"]
    assert found["exit"] == 0


@pytest.mark.parametrize(
    ("attempts", "verdict"),
    [
        (["fail", "pass", "pass"], "flaky"),
        (["fail", "pass", "fail", "pass"], "flaky"),
        (["fail", "pass", "fail"], "fail"),
    ],
)
def test_flaky_stays_flaky(attempts: list[str], verdict: str) -> None:
    assert final_attempt([row("p/s@d", attempt) for attempt in attempts])[0] == verdict


def test_the_number_of_a_process_may_come_again_after_a_kill() -> None:
    ledger = Ledger()
    for word in ("worker", "resume", "worker"):
        ledger.apply({"event": word, "worker": "gw0-7"})
    assert [worker.name for worker in ledger.dead()] == ["gw0-7"], (
        "the second one of that name is watched too"
    )


def test_a_result_whose_probe_was_cut_off_is_found_out_again() -> None:
    ledger = Ledger()
    result = {"event": "result", "worker": "w", "result": row("p/s@d", "unsupported")}
    ledger.apply({"event": "worker", "worker": "w"})
    ledger.apply(result)
    ledger.apply({"event": "probe", "worker": "w", "id": "p/s@d", "state": "start"})
    ledger.apply({"event": "resume"})
    assert (ledger.unprobed, ledger.dead()) == ({"p/s@d"}, [])
    ledger.apply(result)
    assert not ledger.unprobed
