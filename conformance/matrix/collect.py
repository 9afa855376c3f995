"""What became of each cell of a matrix."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.certificate.standing import of
from conformance.errors import UsageError
from conformance.matrix.plan import Cell
from conformance.report import files

#: Statuses that are as they should be; the others are ``failed``, ``incomplete``, ``not-started`` (it refused
#: although results were due, or in other words than the plan says) and ``missing`` (nothing has come of it).
GOOD = ("passed", "unsupported")
#: Name of the folder with the results of a cell.
RESULTS = "results.json"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A cell with what became of it. ``torch`` and ``abi`` are of the build that really ran, as it was
    measured; ``counts`` are results by verdict, ``text`` says in words why there are none.
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
        """Whether the cell is as it should be."""
        return self.status in GOOD

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return dataclasses.asdict(self) | {"cell": self.cell.to_json()}


def outcome(cell: Cell, folder: Path) -> Outcome:
    """What a folder of results says about a cell. Results of another mode or level are no results of it."""
    if not (folder / RESULTS).is_file() and not (folder / "journal.jsonl").is_file():
        return Outcome(cell, "missing", text="there are no results")
    try:
        legs = [leg for leg in files.read(folder) if leg["mode"] == cell.mode and leg["level"] == cell.level]
    except UsageError as error:
        return Outcome(cell, "incomplete", text=str(error))
    if len(legs) != 1:
        return Outcome(
            cell,
            "missing",
            text=f"{folder.name} has {len(legs)} runs of mode {cell.mode} at level {cell.level}",
        )
    (leg,) = legs
    facts = leg["facts"]
    torch, backend = (_table(facts.get(key)) for key in ("torch", "backend"))
    known: dict[str, Any] = {
        "torch": str(leg["torch"]),
        "torch_kind": torch.get("kind"),
        "abi": torch.get("abi"),
        "backend_abi": backend.get("abi"),
        "counts": dict(leg["totals"]),
        "planned": int(leg["planned"]),
    }
    other = _another(cell, leg, str(torch.get("kind")))
    if other:
        return Outcome(cell, "missing", text=other, **known)
    standing, text = of(leg)
    if standing == "refused":
        status = "unsupported" if cell.expect == "refusal" and cell.says in text else "not-started"
        return Outcome(cell, status, text=text, **known)
    if cell.expect == "refusal":
        text = f"it ran although a refusal was declared ({cell.why}); correct the target file"
        return Outcome(cell, "failed", text=text, **known)
    return Outcome(cell, standing, text=text, **known)


def _another(cell: Cell, leg: Mapping[str, Any], kind: str) -> str:
    """Why a run is not that of a cell, or the empty string."""
    if leg["target"]["name"] != cell.target:
        return f"the results are of target {leg['target']['name']}, not {cell.target}"
    named = not re.search(r"\.whl\b", cell.spec)  # a wheel may be anybody's
    wrong = ("fork", "source") if named else ()
    if (kind == "fork-like") != (cell.kind == "fork-like") or kind in wrong:
        return f"the results are of a {kind} build of torch ({leg['torch']}), not of a {cell.kind} one"
    release = str(leg["torch"]).partition("+")[0]
    if re.fullmatch(r"[0-9.]+", cell.spec) and not f"{release}.".startswith(f"{cell.spec}."):
        return f"the results are of torch {leg['torch']}, not {cell.spec}"
    return ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def collect(cells: Sequence[Cell], folder: Path) -> list[Outcome]:
    """The outcomes of all cells, whose results lie in ``folder/ID``. None is left out."""
    found = [outcome(cell, folder / cell.id) for cell in cells]
    # Where nothing of a build has started, a refusal shows a broken environment as well as a declared one.
    alive = {one.cell.build for one in found if one.counts}
    dead = {one.cell.build for one in found if one.cell.expect == "results"} - alive
    return [
        dataclasses.replace(one, status="not-started")
        if one.status == "unsupported" and one.cell.build in dead
        else one
        for one in found
    ]


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 where every cell is as it should be, 1 where one has failed, 3 where one is incomplete or missing."""
    found = {one.status for one in outcomes if not one.good}
    if found & {"incomplete", "missing", "not-started"}:
        return 3
    return 1 if found else 0


def document(outcomes: Sequence[Outcome]) -> str:
    """All of it as JSON."""
    return json.dumps(
        {"schema": 1, "exit": exit_code(outcomes), "cells": [one.to_json() for one in outcomes]}, indent=1
    )
