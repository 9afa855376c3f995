"""A run of a matrix held against the one before it, cell by cell."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.matrix.collect import GOOD
from conformance.model.records import Leg
from conformance.results import diff
from conformance.results import document as results
from conformance.site.submissions import LARGEST

#: Results that are named one by one.
NAMED = 50
#: Earlier runs that are searched for a cell.
SEARCHED = 30


@dataclasses.dataclass(frozen=True)
class CellChange:
    """A cell in two runs. ``was`` is None if no earlier run has the cell; ``regressed`` holds the first ids
    of results that regressed, ``count`` their number.
    """

    id: str
    build: str
    mode: str
    was: str | None
    now: str
    torch: str
    text: str
    regressed: tuple[str, ...] = ()
    count: int = 0

    @property
    def worse(self) -> bool:
        """True if the cell regressed: results did, or its status is no longer a good one."""
        return self.count > 0 or (self.was in GOOD and self.now not in GOOD)

    @property
    def good(self) -> bool:
        """True if the cell's status is a good one and no result of it regressed."""
        return self.now in GOOD and not self.count


def compare_cells(before: Sequence[Path], after: Path) -> list[CellChange]:
    """Compare all cells of the run ``after`` with the earlier runs ``before``, which are given newest first.

    A cell *was* as the newest earlier run with this cell says; its results are compared with those of the
    newest run that has any. UsageError if ``after`` has no table.
    """
    runs = [(run, _read_outcomes(run)) for run in before]
    new_legs = _read_legs(after)
    changes = []
    for name, outcome in _read_outcomes(after).items():
        earlier = [(run, old[name]) for run, old in runs if name in old]
        measured = next(((run, old) for run, old in earlier if old["counts"]), None)
        regressed: list[str] = []
        if measured is not None:
            regressed = _regressed_ids(
                _leg_of_outcome(_read_legs(measured[0]), measured[1]), _leg_of_outcome(new_legs, outcome)
            )
        changes.append(
            CellChange(
                id=name,
                build=str(outcome["cell"]["build"]),
                mode=str(outcome["cell"]["mode"]),
                was=str(earlier[0][1]["status"]) if earlier else None,
                now=str(outcome["status"]),
                torch=str(outcome["torch"] or "unknown"),
                text=str(outcome["text"]),
                regressed=tuple(regressed[:NAMED]),
                count=len(regressed),
            )
        )
    return changes


def earlier_runs(folder: Path, backend: str, *, other_than: str = "") -> list[Path]:
    """List a backend's newest runs on the branch of results that have a table of cells, without those of the
    workflow's run ``other_than``: the run that is compared with them.
    """
    runs = sorted((path.parent for path in (folder / backend).glob("*/matrix.json")), reverse=True)
    return [run for run in runs if not other_than or run.name.split("-")[1:2] != [other_than]][:SEARCHED]


def _read_outcomes(folder: Path) -> dict[str, Any]:
    file = folder / "matrix.json"
    try:
        data = json.loads(file.read_text())
        return {str(cell["cell"]["id"]): cell for cell in data["cells"]}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"{file} is not a table of cells ({error}); make it with 'conformance ci gather'"
        ) from None


@functools.lru_cache(maxsize=4)
def _read_legs(folder: Path) -> dict[tuple[str, str], Leg]:
    file = folder / "results.json"
    if not file.is_file():
        return {}
    document = results.read(file, limit=LARGEST)
    return {(str(leg["torch"]), str(leg["mode"])): leg for leg in document["legs"]}


def _leg_of_outcome(legs: dict[tuple[str, str], Leg], outcome: Any) -> Leg | None:
    return legs.get((str(outcome["torch"]), str(outcome["cell"]["mode"])))


def _regressed_ids(old: Leg | None, new: Leg | None) -> list[str]:
    if old is None or new is None or not old["results"] or not new["results"]:
        return []  # the status of a cell without results says more than the names of all its results
    try:
        report = diff.compare([old], [new])
    except UsageError:
        return []
    return [change.id for pair in report.pairs for change in pair.counted]
