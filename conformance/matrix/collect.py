"""The outcome of each cell of a matrix."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.certificate.leg_status import leg_status
from conformance.errors import UsageError
from conformance.matrix.plan import Cell
from conformance.model.records import Leg
from conformance.report import output_files

#: The good statuses; the others are ``failed``, ``incomplete``, ``not-started`` (it refused although results
#: were due, or in other words than the plan says) and ``missing`` (the run produced no result).
GOOD = ("passed", "unsupported")
#: Name of the folder with the results of a cell.
RESULTS = "results.json"


@dataclasses.dataclass(frozen=True)
class CellOutcome:
    """A cell with its outcome. ``torch`` and ``abi`` are measured on the build that ran; ``counts`` holds the
    number of results by verdict, ``text`` the reason if there are none.
    """

    cell: Cell
    status: str
    torch: str | None = None
    torch_kind: str | None = None
    abi: str | None = None
    backend_abi: str | None = None
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    planned: int = 0
    text: str = ""

    @property
    def good(self) -> bool:
        """True if the cell passed, or refused as the target declares."""
        return self.status in GOOD

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        return dataclasses.asdict(self) | {"cell": self.cell.to_json()}


def outcome_of_cell(cell: Cell, folder: Path) -> CellOutcome:
    """Read the outcome of a cell from a folder of results. Results of another mode or level do not count."""
    if not (folder / RESULTS).is_file() and not (folder / "journal.jsonl").is_file():
        return CellOutcome(cell, "missing", text="there are no results")
    try:
        legs = [
            leg
            for leg in output_files.read_legs(folder)
            if leg["mode"] == cell.mode and leg["level"] == cell.level
        ]
    except UsageError as error:
        return CellOutcome(cell, "incomplete", text=str(error))
    if len(legs) != 1:
        return CellOutcome(
            cell,
            "missing",
            text=f"{folder.name} has {len(legs)} runs of mode {cell.mode} at level {cell.level}",
        )
    (leg,) = legs
    facts = leg["facts"]
    torch, backend = (_as_table(facts.get(key)) for key in ("torch", "backend"))
    measured: dict[str, Any] = {
        "torch": str(leg["torch"]),
        "torch_kind": torch.get("kind"),
        "abi": torch.get("abi"),
        "backend_abi": backend.get("abi"),
        "counts": dict(leg["totals"]),
        "planned": int(leg["planned"]),
    }
    mismatch = _mismatch(cell, leg, str(torch.get("kind")))
    if mismatch:
        return CellOutcome(cell, "missing", text=mismatch, **measured)
    leg_state, text = leg_status(leg)
    if leg_state == "refused":
        status = "unsupported" if cell.expect == "refusal" and cell.says in text else "not-started"
        return CellOutcome(cell, status, text=text, **measured)
    if cell.expect == "refusal":
        text = f"it ran although a refusal was declared ({cell.why}); correct the target file"
        return CellOutcome(cell, "failed", text=text, **measured)
    return CellOutcome(cell, leg_state, text=text, **measured)


def _mismatch(cell: Cell, leg: Leg, kind: str) -> str:
    """Return the reason why a run is not that of a cell, or the empty string."""
    if leg["target"]["name"] != cell.target:
        return f"the results are of target {leg['target']['name']}, not {cell.target}"
    named = not re.search(r"\.whl\b", cell.spec)  # a wheel may be of any kind
    wrong = ("fork", "source") if named else ()
    if (kind == "fork-like") != (cell.kind == "fork-like") or kind in wrong:
        return f"the results are of a {kind} build of torch ({leg['torch']}), not of a {cell.kind} one"
    release = str(leg["torch"]).partition("+")[0]
    if re.fullmatch(r"[0-9.]+", cell.spec) and not f"{release}.".startswith(f"{cell.spec}."):
        return f"the results are of torch {leg['torch']}, not {cell.spec}"
    return ""


def _as_table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def collect_outcomes(cells: Sequence[Cell], folder: Path) -> list[CellOutcome]:
    """Read the outcomes of all cells, whose results are in ``folder/ID``. No cell is left out."""
    outcomes = [outcome_of_cell(cell, folder / cell.id) for cell in cells]
    # If no cell of a build has started, a refusal may as well come from a broken environment.
    alive = {entry.cell.build for entry in outcomes if entry.counts}
    dead = {entry.cell.build for entry in outcomes if entry.cell.expect == "results"} - alive
    return [
        dataclasses.replace(entry, status="not-started")
        if entry.status == "unsupported" and entry.cell.build in dead
        else entry
        for entry in outcomes
    ]


def exit_code(outcomes: Sequence[CellOutcome]) -> int:
    """Return 0 if every cell is good, 3 if one is incomplete or missing, else 1: one has failed."""
    statuses = {outcome.status for outcome in outcomes if not outcome.good}
    if statuses & {"incomplete", "missing", "not-started"}:
        return 3
    return 1 if statuses else 0


def outcomes_json(outcomes: Sequence[CellOutcome]) -> str:
    """Write all outcomes as JSON."""
    return json.dumps(
        {"schema": 1, "exit": exit_code(outcomes), "cells": [outcome.to_json() for outcome in outcomes]},
        indent=1,
    )
