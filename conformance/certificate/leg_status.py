"""Compute the status of a leg from its result rows.

The summary that the run wrote into the leg can make the status worse, but not better.
"""

from __future__ import annotations

import enum

from conformance.certificate import level_assessment
from conformance.model.records import Leg
from conformance.plan import levels
from conformance.results.exit_codes import OK, UNEXPECTED, USAGE
from conformance.results.leg_summary import LegSummary


class LegStatus(str, enum.Enum):
    """The status of a leg. A refused leg did not start."""

    PASSED = "passed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    REFUSED = "refused"

    def __str__(self) -> str:
        """Return the word that results and pages show."""
        return self.value


def leg_status(leg: Leg) -> tuple[LegStatus, str]:
    """Return the status of a leg, and the reason if it did not pass."""
    rows = leg["results"]
    if leg["exit"] == USAGE and not rows:
        return LegStatus.REFUSED, "; ".join(leg["problems"])[:1000]
    why = []
    if not rows:
        why.append("the leg has no results")
    if leg["oracle"]["differences"]:
        why.append(f"{len(leg['oracle']['differences'])} oracle values differ without the backend")
    # Ignore the reason about level smoke: it cannot be certified, but a run of level smoke can be complete.
    why += [
        text for text in level_assessment.reasons_unfit(leg) if not text.startswith(f"level {levels.SMOKE}")
    ]
    if why:
        return LegStatus.INCOMPLETE, "; ".join([*why, *leg["problems"]])[:1000]
    unexpected = LegSummary.from_leg(leg).unexpected_count
    if unexpected:
        return LegStatus.FAILED, f"{unexpected} results are unexpected"
    if leg["exit"] == UNEXPECTED:
        return LegStatus.FAILED, "; ".join(leg["problems"])[:1000] or "the expectations are wrong"
    if leg["exit"] != OK:
        return LegStatus.INCOMPLETE, f"the run ended with exit code {leg['exit']}"
    return LegStatus.PASSED, ""
