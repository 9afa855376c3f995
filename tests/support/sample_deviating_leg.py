"""Artificial legs with failing results, for tests of ``conformance export`` to upstream's test framework."""

from __future__ import annotations

from typing import Any

from tests.support import sample_passing_leg


def row(
    name: str, verdict: str = "fail", *kinds: str, message: str = "off by 1", **more: Any
) -> dict[str, Any]:
    """Return a result row with one failure per kind."""
    result_row: dict[str, Any] = {"id": name, "verdict": verdict, "seconds": 0.1, **more}
    if kinds:
        result_row["failures"] = [{"kind": kind, "message": message} for kind in kinds]
    return result_row


def leg(*rows: dict[str, Any], device: str = "cpu", mode: str = "eager") -> dict[str, Any]:
    """Return a leg of level bringup whose results are ``rows``."""
    with sample_passing_leg.fixed_suite_digest():
        leg_record = sample_passing_leg.leg("bringup", mode)
    leg_record["results"] = list(rows)
    leg_record["target"]["device"] = device
    return sample_passing_leg.with_recounted_totals(leg_record)
