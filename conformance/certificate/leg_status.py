"""The standing of a leg, counted from its rows: its own statements may make it worse, never better."""

from __future__ import annotations

from conformance.certificate import level_assessment
from conformance.model.records import Leg
from conformance.plan import levels
from conformance.results.exit_codes import OK, UNEXPECTED, USAGE
from conformance.results.leg_summary import Judgement

#: ``refused``: it did not start.
STANDINGS = ("passed", "failed", "incomplete", "refused")


def leg_status(leg: Leg) -> tuple[str, str]:
    """One of ``STANDINGS``, and in words why it is not ``passed``."""
    rows = leg["results"]
    if leg["exit"] == USAGE and not rows:
        return "refused", "; ".join(leg["problems"])[:1000]
    why = []
    if not rows:
        why.append("it has no results")
    if leg["oracle"]["differences"]:
        why.append(f"{len(leg['oracle']['differences'])} oracle values differ without the backend")
    # Level smoke certifies nothing, but a run of it can be complete.
    why += [text for text in level_assessment.whole(leg) if not text.startswith(f"level {levels.SMOKE}")]
    if why:
        return "incomplete", "; ".join([*why, *leg["problems"]])[:1000]
    unexpected = Judgement.of(leg).unexpected
    if unexpected:
        return "failed", f"{unexpected} results are not as they should be"
    if leg["exit"] == UNEXPECTED:
        return "failed", "; ".join(leg["problems"])[:1000] or "its expectations are wrong"
    return ("passed", "") if leg["exit"] == OK else ("incomplete", f"it ended with {leg['exit']}")
