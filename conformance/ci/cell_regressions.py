"""Compare the cells of a matrix run with earlier runs."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.matrix.collect import GOOD, CellStatus
from conformance.model.records import Leg
from conformance.results import diff
from conformance.results import document as results
from conformance.site.submissions import LARGEST

#: The maximum number of listed results.
NAMED = 50
#: The maximum number of earlier runs that are searched for a cell.
SEARCHED = 30


@dataclasses.dataclass(frozen=True)
class CellChange:
    """A cell in two runs.

    ``was`` and ``now`` are the statuses of the cell in the earlier and the later run; ``was`` is None if no
    earlier run has the cell. ``count`` is the number of regressed results, and ``regressed`` has the ids of
    the first of these results.
    """

    id: str
    build: str
    mode: str
    was: CellStatus | None
    now: CellStatus
    torch: str
    text: str
    regressed: tuple[str, ...] = ()
    count: int = 0

    @property
    def has_regressed(self) -> bool:
        """True if results of the cell regressed, or its status changed from good to not good."""
        return self.count > 0 or (self.was in GOOD and self.now not in GOOD)

    @property
    def is_good(self) -> bool:
        """True if the status of the cell is good and no result regressed."""
        return self.now in GOOD and not self.count


def compare_cells(before: Sequence[Path], after: Path) -> list[CellChange]:
    """Compare the cells of the run ``after`` with the earlier runs ``before``, ordered from newest to oldest.

    The earlier status of a cell is its status in the newest earlier run that has the cell. The results of the
    cell are compared with the newest earlier run that has results of the cell. Raise UsageError if ``after``
    has no table of cells.
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
                was=CellStatus(earlier[0][1]["status"]) if earlier else None,
                now=CellStatus(outcome["status"]),
                torch=str(outcome["torch"] or "unknown"),
                text=str(outcome["text"]),
                regressed=tuple(regressed[:NAMED]),
                count=len(regressed),
            )
        )
    return changes


def earlier_runs(folder: Path, backend: str, *, exclude_run_id: str = "") -> list[Path]:
    """Return the folders of a backend's newest runs that have a table of cells, the newest first.

    ``folder`` is a checkout of the results branch. ``exclude_run_id`` is the id of a workflow run, whose
    folders on the branch are excluded.
    """
    runs = sorted((path.parent for path in (folder / backend).glob("*/matrix.json")), reverse=True)
    return [run for run in runs if not exclude_run_id or run.name.split("-")[1:2] != [exclude_run_id]][
        :SEARCHED
    ]


def _read_outcomes(folder: Path) -> dict[str, Any]:
    file = folder / "matrix.json"
    try:
        data = json.loads(file.read_text())
        return {str(cell["cell"]["id"]): cell for cell in data["cells"]}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"{file} is not a table of cells ({error}); write it with 'conformance ci gather'"
        ) from None


@functools.lru_cache(maxsize=4)
def _read_legs(folder: Path) -> dict[tuple[str, str], Leg]:
    file = folder / "results.json"
    if not file.is_file():
        return {}
    document = results.read_results(file, limit=LARGEST)
    return {(str(leg["torch"]), str(leg["mode"])): leg for leg in document["legs"]}


def _leg_of_outcome(legs: dict[tuple[str, str], Leg], outcome: Any) -> Leg | None:
    return legs.get((str(outcome["torch"]), str(outcome["cell"]["mode"])))


def _regressed_ids(old: Leg | None, new: Leg | None) -> list[str]:
    if old is None or new is None or not old["results"] or not new["results"]:
        return []  # the status of a cell without results already reports the loss of all results
    try:
        report = diff.compare_runs([old], [new])
    except UsageError:
        return []
    return [change.id for pair in report.pairs for change in pair.worse_results]
