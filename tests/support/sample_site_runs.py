"""Artificial legs, provenances and matrix tables of runs that the site shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from conformance.matrix import collect
from conformance.matrix.collect import CellOutcome, CellStatus
from conformance.matrix.plan import Cell
from tests.support.sample_passing_leg import fixed_suite_digest, leg, with_recounted_totals, with_rows

TODAY = "2026-01-10"


def site_leg(**changes: Any) -> dict[str, Any]:
    """Return a passing leg of level bringup that ran on 2026-01-09."""
    kind = changes.pop("kind", "public")
    with fixed_suite_digest():
        leg_record = leg("bringup", changes.pop("mode", "eager"))
    leg_record["started"] = "2026-01-09T03:04:05+00:00"
    leg_record["target"] = {**leg_record["target"], "device": changes.pop("device", "cpu")}
    leg_record["target"]["simulated"] = changes.pop("simulated", False)
    leg_record["facts"]["torch"]["kind"] = kind
    return {**leg_record, **changes}


#: The provenance of a published run that this project's own workflow made.
OURS = {"channel": "our-workflow", "received": "2026-01-09T23:00:00+00:00", "repository": "o/suite"}


def provenance_of_night(day: int) -> dict[str, str]:
    """Return the provenance of the nightly run of a day in January 2026."""
    return {**OURS, "received": f"2026-01-{day:02}T23:00:00+00:00"}


def matrix_table(*legs: dict[str, Any], missing: Sequence[str] = (), spec: str = "2.13.0") -> dict[str, Any]:
    """Return the matrix table of one build, as the workflow writes it. The table has a row for each leg, and
    a row without a leg for each mode of ``missing``.
    """
    outcomes = []
    for mode in (*(leg_record["mode"] for leg_record in legs), *missing):
        cell = Cell(f"{spec}-public-{mode}", "mine", f"{spec}-public", spec, "public", mode, "bringup")
        legs_of_mode = [leg_record for leg_record in legs if leg_record["mode"] == mode]
        outcomes.append(
            CellOutcome(cell, CellStatus.MISSING) if not legs_of_mode else cell_outcome(cell, legs_of_mode[0])
        )
    data: dict[str, Any] = json.loads(collect.outcomes_json(outcomes))
    return data


def cell_outcome(cell: Cell, leg: dict[str, Any]) -> CellOutcome:
    torch = leg["facts"]["torch"]
    build_fields = {"torch": leg["torch"], "torch_kind": torch["kind"], "abi": torch["abi"]}
    counts = dict(leg["totals"]) if leg["results"] else {}
    return CellOutcome(
        cell,
        CellStatus.PASSED if counts else CellStatus.NOT_STARTED,
        counts=counts,
        planned=leg["planned"],
        **build_fields,
    )


def failing_leg(leg_record: dict[str, Any], *indices: int, message: str = "wrong") -> dict[str, Any]:
    """Change the results at these indices to failures with ``message``, and return the leg."""
    row = {"verdict": "fail", "failures": [{"kind": "value", "message": message}], "failure_count": 1}
    leg_record = with_rows(leg_record, {leg_record["results"][index]["id"]: row for index in indices})
    leg_record["exit"] = 1
    return leg_record


def refused_leg(mode: str = "lazy", **changes: Any) -> dict[str, Any]:
    """Return a leg of a backend that did not start."""
    leg_record = with_recounted_totals({**site_leg(mode=mode, **changes), "results": []})
    return {
        **leg_record,
        "exit": 2,
        "complete": False,
        "problems": ["it needs a fork-like torch"],
        "planned": 0,
    }
