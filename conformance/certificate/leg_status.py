"""Compute the status of a leg from its rows. The leg's own summary can lower the status and cannot raise it."""

from __future__ import annotations

from conformance.certificate import level_assessment
from conformance.model.records import Leg
from conformance.plan import levels
from conformance.results.exit_codes import OK, UNEXPECTED, USAGE
from conformance.results.leg_summary import Judgement

#: The possible statuses of a leg. A ``refused`` leg did not start.
STANDINGS = ("passed", "failed", "incomplete", "refused")


def leg_status(leg: Leg) -> tuple[str, str]:
    """Return the status of a leg, one of ``STANDINGS``, and the reason if it is not ``passed``."""
    rows = leg["results"]
    if leg["exit"] == USAGE and not rows:
        return "refused", "; ".join(leg["problems"])[:1000]
    why = []
    if not rows:
        why.append("the leg has no results")
    if leg["oracle"]["differences"]:
        why.append(f"{len(leg['oracle']['differences'])} oracle values differ without the backend")
    # Level smoke cannot be certified, but a run of level smoke can be complete.
    why += [
        text for text in level_assessment.reasons_unfit(leg) if not text.startswith(f"level {levels.SMOKE}")
    ]
    if why:
        return "incomplete", "; ".join([*why, *leg["problems"]])[:1000]
    unexpected = Judgement.of(leg).unexpected
    if unexpected:
        return "failed", f"{unexpected} results are unexpected"
    if leg["exit"] == UNEXPECTED:
        return "failed", "; ".join(leg["problems"])[:1000] or "the expectations are wrong"
    return (
        ("passed", "") if leg["exit"] == OK else ("incomplete", f"the run ended with exit code {leg['exit']}")
    )
