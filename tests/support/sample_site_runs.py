"""Folders of results for the site, made up run by run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from conformance.matrix import collect
from conformance.matrix.collect import CellOutcome
from conformance.matrix.plan import Cell
from tests.support.sample_passing_leg import leg, settled, summed, with_rows

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


#: The provenance of a run of this project's own workflow.
OURS = {"channel": "our-workflow", "received": "2026-01-09T23:00:00+00:00", "repository": "o/suite"}


def night(day: int) -> dict[str, str]:
    """The provenance of the run of a night of January 2026."""
    return {**OURS, "received": f"2026-01-{day:02}T23:00:00+00:00"}


def table(*legs: dict[str, Any], missing: Sequence[str] = (), spec: str = "2.13.0") -> dict[str, Any]:
    """The table of a matrix on one build, as the workflow writes it: legs, and modes that left nothing."""
    outcomes = []
    for mode in (*(one["mode"] for one in legs), *missing):
        cell = Cell(f"{spec}-public-{mode}", "mine", f"{spec}-public", spec, "public", mode, "bringup")
        found = [one for one in legs if one["mode"] == mode]
        outcomes.append(CellOutcome(cell, "missing") if not found else outcome(cell, found[0]))
    data: dict[str, Any] = json.loads(collect.outcomes_json(outcomes))
    return data


def outcome(cell: Cell, leg: dict[str, Any]) -> CellOutcome:
    torch = leg["facts"]["torch"]
    known = {"torch": leg["torch"], "torch_kind": torch["kind"], "abi": torch["abi"]}
    counts = dict(leg["totals"]) if leg["results"] else {}
    return CellOutcome(
        cell, "passed" if counts else "not-started", counts=counts, planned=leg["planned"], **known
    )


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
