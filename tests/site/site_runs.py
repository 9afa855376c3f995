"""Folders of results for the site, made up run by run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certifiable import leg, settled, summed, with_rows

TODAY = "2026-01-10"


def made(**changes: Any) -> dict[str, Any]:
    """A whole leg of level bringup that passed on 2026-01-09."""
    kind = changes.pop("kind", "public")
    with settled():
        found = leg("bringup", changes.pop("mode", "eager"))
    found["started"] = "2026-01-09T03:04:05+00:00"
    found["target"] = {**found["target"], "device": changes.pop("device", "cpu")}
    found["target"]["simulated"] = changes.pop("simulated", False)
    found["facts"]["torch"]["kind"] = kind
    return {**found, **changes}


#: Where a run of this project's own workflow comes from.
OURS = {"channel": "our-workflow", "received": "2026-01-09T23:00:00+00:00", "repository": "o/suite"}


def table(*legs: dict[str, Any], missing: Sequence[str] = ()) -> dict[str, Any]:
    """The table of a matrix on one build: these legs, and modes that nothing has come of."""
    ran = {leg["mode"]: leg for leg in legs}
    cells = [
        {
            "cell": {"id": f"2.13.0-public-{mode}", "mode": mode},
            "status": "passed" if mode in ran else "missing",
            "torch": ran[mode]["torch"] if mode in ran else None,
            "torch_kind": ran[mode]["facts"]["torch"]["kind"] if mode in ran else None,
        }
        for mode in (*ran, *missing)
    ]
    return {"schema": 1, "exit": 3 if missing else 0, "cells": cells}


def failing(found: dict[str, Any], *places: int, message: str = "wrong") -> dict[str, Any]:
    """A leg in which the rows at these places failed."""
    row = {"verdict": "fail", "failures": [{"kind": "value", "message": message}], "failure_count": 1}
    found = with_rows(found, {found["results"][place]["id"]: row for place in places})
    found["exit"] = 1
    return found


def refused(mode: str = "lazy", **changes: Any) -> dict[str, Any]:
    """A leg of a backend that did not start."""
    found = summed({**made(mode=mode, **changes), "results": []})
    return {**found, "exit": 2, "complete": False, "problems": ["it needs a fork-like torch"], "planned": 0}
