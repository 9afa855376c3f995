"""The last line that ``conformance expect check`` prints counts the expectations by state. Only an
unrestricted run confirms an expectation.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from conformance.expectations import check_summary
from conformance.expectations.entries import Expectation, TargetExpectations
from tests.support.sample_legs import DAY, expectation, leg_with_expectations


def summary_of(
    entries: list[Expectation], *legs: dict[str, Any], problems: int = 0, modes: tuple[str, ...] = ("eager",)
) -> str:
    """Return the last line of the check for a target whose results are ``p/good@d`` and ``p/bad@d``.

    ``problems``: number of problems that the check found. ``modes``: modes of the target.
    """
    plans = {mode: frozenset(["p/good@d", "p/bad@d"]) for mode in modes}
    entry_counts = check_summary.count_entries(
        TargetExpectations(tuple(entries), ""), plans, legs, ["2.13.0"], DAY
    )
    return check_summary.summary_line(entry_counts, problems)


def test_only_an_unrestricted_run_confirms_expectations() -> None:
    bad, unrelated = expectation("p/bad@d", "value"), expectation("p/bad@d", "message")
    assert summary_of([]) == "0 entries"
    nobody = (
        "2 entries: names, modes and expiry are valid; they are not yet verified: run level full, without -k "
        "and with all shards"
    )
    assert summary_of([bad, unrelated]) == nobody
    verdicts = {"good": "pass", "bad": "fail"}
    for part in ({"level": "bringup"}, {"selection": "bad"}, {"shard": "1/2"}, {"missing": 1}):
        assert (
            summary_of([bad, unrelated], leg_with_expectations([bad, unrelated], verdicts, **part)) == nobody
        ), part
    assert summary_of([bad], leg_with_expectations([bad], verdicts)) == "1 entries are confirmed"
    assert (
        summary_of([bad, unrelated], leg_with_expectations([bad], verdicts), problems=1)
        == "2 entries, 1 problems"
    )
    assert summary_of([bad], problems=1) == (
        "1 entries, 1 problems; the others are not yet verified: run level full, without -k and with all "
        "shards"
    )


def test_the_summary_counts_unverified_and_inconclusive_expectations() -> None:
    eager, both = expectation("p/bad@d", "value", modes=("eager",)), expectation("p/bad@d", "value")
    leg_of_eager = leg_with_expectations([eager, both], {"good": "pass", "bad": "fail"})
    assert summary_of([eager, both], leg_of_eager, modes=("eager", "lazy")) == (
        "2 entries: names, modes and expiry are valid, and 1 are confirmed; the others are not yet verified: "
        "run level full in lazy, without -k and with all shards"
    )
    crashed = leg_with_expectations([both], {"good": "pass", "bad": "flaky"})
    assert summary_of([both], crashed) == (
        "1 entries: names, modes and expiry are valid; 1 are inconclusive: their results neither passed nor "
        "failed"
    )
    old = dataclasses.replace(both, torch="<2.10")
    assert summary_of([both, old], leg_of_eager) == (
        "2 entries: names, modes and expiry are valid, and 1 are confirmed; 1 apply to other versions of "
        "torch and were not checked"
    )
    of_graphs = expectation("p/bad@d", "value", modes=("graph",))
    assert summary_of([of_graphs], problems=1) == "1 entries, 1 problems", (
        "the target does not have this mode"
    )
    assert summary_of([old]) == "1 entries; 1 apply to other versions of torch and were not checked"
