"""Read the outcome of each cell of a matrix."""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.certificate.leg_status import LegStatus, leg_status
from conformance.errors import UsageError
from conformance.matrix.plan import Cell
from conformance.model.records import Leg
from conformance.report import output_files


class CellStatus(str, enum.Enum):
    """The status of a cell of the matrix."""

    PASSED = "passed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    #: The folder of the cell does not contain exactly one leg of the cell.
    MISSING = "missing"
    #: The run refused to start, as the target file declares.
    UNSUPPORTED = "unsupported"
    #: The run refused to start, but the plan expects results, or a refusal with a different text.
    NOT_STARTED = "not-started"

    def __str__(self) -> str:
        """Return the word that outcomes and pages show."""
        return self.value


#: The good statuses.
GOOD = (CellStatus.PASSED, CellStatus.UNSUPPORTED)
#: The statuses of cells without a complete run.
_NOT_RUN = frozenset({CellStatus.INCOMPLETE, CellStatus.MISSING, CellStatus.NOT_STARTED})
#: The name of the results file in the folder of a cell.
RESULTS = "results.json"


@dataclasses.dataclass(frozen=True)
class CellOutcome:
    """A cell with its outcome.

    ``torch`` and ``abi`` are the version and the C++ ABI of the build that ran. ``counts`` is the number of
    results by verdict. ``text`` is the reason if the cell did not pass.
    """

    cell: Cell
    status: CellStatus
    torch: str | None = None
    torch_kind: str | None = None
    abi: str | None = None
    backend_abi: str | None = None
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    planned: int = 0
    text: str = ""

    @property
    def is_as_expected(self) -> bool:
        """True if the cell passed, or refused as declared by the target."""
        return self.status in GOOD

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        return dataclasses.asdict(self) | {"cell": self.cell.to_json()}


def outcome_of_cell(cell: Cell, folder: Path) -> CellOutcome:
    """Return the outcome of a cell from its results folder.

    Results of a different mode or level are ignored.
    """
    if not (folder / RESULTS).is_file() and not (folder / "journal.jsonl").is_file():
        return CellOutcome(cell, CellStatus.MISSING, text="the cell has no results")
    try:
        legs = [
            leg
            for leg in output_files.read_legs(folder)
            if leg["mode"] == cell.mode and leg["level"] == cell.level
        ]
    except UsageError as error:
        return CellOutcome(cell, CellStatus.INCOMPLETE, text=str(error))
    if len(legs) != 1:
        return CellOutcome(
            cell,
            CellStatus.MISSING,
            text=f"{folder.name} has {len(legs)} runs of mode {cell.mode} at level {cell.level}",
        )
    (leg,) = legs
    facts = leg["facts"]
    torch, backend = (_dict_or_empty(facts.get(key)) for key in ("torch", "backend"))
    measured: dict[str, Any] = {
        "torch": str(leg["torch"]),
        "torch_kind": torch.get("kind"),
        "abi": torch.get("abi"),
        "backend_abi": backend.get("abi"),
        "counts": dict(leg["totals"]),
        "planned": int(leg["planned"]),
    }
    mismatch = _reason_leg_is_not_of_cell(cell, leg, str(torch.get("kind")))
    if mismatch:
        return CellOutcome(cell, CellStatus.MISSING, text=mismatch, **measured)
    leg_state, text = leg_status(leg)
    if leg_state is LegStatus.REFUSED:
        as_declared = cell.expect == "refusal" and cell.says in text
        status = CellStatus.UNSUPPORTED if as_declared else CellStatus.NOT_STARTED
        return CellOutcome(cell, status, text=text, **measured)
    if cell.expect == "refusal":
        text = f"the cell ran although a refusal was declared ({cell.why}); correct the target file"
        return CellOutcome(cell, CellStatus.FAILED, text=text, **measured)
    return CellOutcome(cell, CellStatus(leg_state), text=text, **measured)


def _reason_leg_is_not_of_cell(cell: Cell, leg: Leg, kind: str) -> str:
    """Return the reason why a leg does not belong to a cell, or an empty string."""
    if leg["target"]["name"] != cell.target:
        return f"the results are of target {leg['target']['name']}, not {cell.target}"
    named = not re.search(r"\.whl\b", cell.spec)  # a wheel can be a build of any kind
    wrong = ("fork", "source") if named else ()
    if (kind == "fork-like") != (cell.kind == "fork-like") or kind in wrong:
        return f"the results are of a {kind} build of torch ({leg['torch']}), not of a {cell.kind} build"
    release = str(leg["torch"]).partition("+")[0]
    if re.fullmatch(r"[0-9.]+", cell.spec) and not f"{release}.".startswith(f"{cell.spec}."):
        return f"the results are of torch {leg['torch']}, not {cell.spec}"
    return ""


def _dict_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def collect_outcomes(cells: Sequence[Cell], folder: Path) -> list[CellOutcome]:
    """Return the outcomes of all cells, including cells without results. The results of a cell are in
    ``folder/ID``.
    """
    outcomes = [outcome_of_cell(cell, folder / cell.id) for cell in cells]
    # If no cell of a build started, a broken environment may have caused the refusals of its cells. These
    # refusals do not count as declared.
    alive = {entry.cell.build for entry in outcomes if entry.counts}
    dead = {entry.cell.build for entry in outcomes if entry.cell.expect == "results"} - alive
    return [
        dataclasses.replace(entry, status=CellStatus.NOT_STARTED)
        if entry.status is CellStatus.UNSUPPORTED and entry.cell.build in dead
        else entry
        for entry in outcomes
    ]


def exit_code(outcomes: Sequence[CellOutcome]) -> int:
    """Return 0 if every cell is good, 3 if a cell is incomplete, missing or not started, else 1."""
    statuses = {outcome.status for outcome in outcomes if not outcome.is_as_expected}
    if statuses & _NOT_RUN:
        return 3
    return 1 if statuses else 0


def outcomes_json(outcomes: Sequence[CellOutcome]) -> str:
    """Return all outcomes as JSON text."""
    return json.dumps(
        {"schema": 1, "exit": exit_code(outcomes), "cells": [outcome.to_json() for outcome in outcomes]},
        indent=1,
    )
