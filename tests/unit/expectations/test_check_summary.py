"""The last line of ``expect check``: what it has looked at, and "true" only if a run decided it."""

from __future__ import annotations

import dataclasses
from typing import Any

from conformance.expectations import check_summary
from conformance.expectations.entries import Expectation, TargetExpectations
from tests.support.sample_legs import DAY, expected, judged


def said(
    entries: list[Expectation], *legs: dict[str, Any], problems: int = 0, modes: tuple[str, ...] = ("eager",)
) -> str:
    """The last line of a check of entries of a target that has the results ``p/good@d`` and ``p/bad@d``."""
    plans = {mode: frozenset(["p/good@d", "p/bad@d"]) for mode in modes}
    found = check_summary.count_entries(TargetExpectations(tuple(entries), ""), plans, legs, ["2.13.0"], DAY)
    return check_summary.summary_line(found, problems)


def test_only_what_a_whole_run_decided_is_called_true() -> None:
    bad, other = expected("p/bad@d", "value"), expected("p/bad@d", "message")
    assert said([]) == "0 entries"
    nobody = (
        "2 entries: names, modes and expiry are valid; they are not yet verified: run level full, without -k "
        "and with all shards"
    )
    assert said([bad, other]) == nobody
    verdicts = {"good": "pass", "bad": "fail"}
    for part in ({"level": "bringup"}, {"selection": "bad"}, {"shard": "1/2"}, {"missing": 1}):
        assert said([bad, other], judged([bad, other], verdicts, **part)) == nobody, part
    assert said([bad], judged([bad], verdicts)) == "1 entries are confirmed"
    assert said([bad, other], judged([bad], verdicts), problems=1) == "2 entries, 1 problems"
    assert said([bad], problems=1) == (
        "1 entries, 1 problems; the others are not yet verified: run level full, without -k and with all shards"
    )


def test_a_check_names_what_nobody_has_looked_at() -> None:
    eager, both = expected("p/bad@d", "value", modes=("eager",)), expected("p/bad@d", "value")
    leg_of_eager = judged([eager, both], {"good": "pass", "bad": "fail"})
    assert said([eager, both], leg_of_eager, modes=("eager", "lazy")) == (
        "2 entries: names, modes and expiry are valid, and 1 are confirmed; the others are not yet verified: run "
        "level full in lazy, without -k and with all shards"
    )
    crashed = judged([both], {"good": "pass", "bad": "flaky"})
    assert said([both], crashed) == (
        "1 entries: names, modes and expiry are valid; 1 are inconclusive: their results neither passed nor "
        "failed"
    )
    old = dataclasses.replace(both, torch="<2.10")
    assert said([both, old], leg_of_eager) == (
        "2 entries: names, modes and expiry are valid, and 1 are confirmed; 1 apply to other versions of torch "
        "and were not checked"
    )
    of_graphs = expected("p/bad@d", "value", modes=("graph",))
    assert said([of_graphs], problems=1) == "1 entries, 1 problems", "of a mode that the target lacks"
    assert said([old]) == "1 entries; 1 apply to other versions of torch and were not checked"
