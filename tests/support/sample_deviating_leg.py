"""A leg of results that deviate, for tests of the bridges to upstream's tests."""

from __future__ import annotations

from typing import Any

from tests.support import sample_passing_leg


def row(
    name: str, verdict: str = "fail", *kinds: str, message: str = "off by 1", **more: Any
) -> dict[str, Any]:
    """A result, with a failure for each kind."""
    found: dict[str, Any] = {"id": name, "verdict": verdict, "seconds": 0.1, **more}
    if kinds:
        found["failures"] = [{"kind": kind, "message": message} for kind in kinds]
    return found


def leg(*rows: dict[str, Any], device: str = "cpu", mode: str = "eager") -> dict[str, Any]:
    """A leg of these results on a device."""
    with sample_passing_leg.settled():
        found = sample_passing_leg.leg("bringup", mode)
    found["results"] = list(rows)
    found["target"]["device"] = device
    return sample_passing_leg.summed(found)
