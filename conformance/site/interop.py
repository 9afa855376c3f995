"""Compute the interop score of each operator family and behaviour area: results that pass on all backends."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Sequence

from conformance.report.families import operator_family
from conformance.site import cell_state
from conformance.site.matrix_cells import Cell
from conformance.site.store.verdict_table import subject_of
from conformance.subjects.areas import AREAS

#: The letters of the verdicts that do not contradict a page of the documentation.
_PASS = ".p"
#: Cells in these states are excluded, because their results do not describe the current backend.
_OLD = ("stale", "retired", "refused", "incomplete")


@dataclasses.dataclass(frozen=True)
class Score:
    """The interop score of a family or area: how many of its results pass on all backends that have the
    result.
    """

    name: str
    about: str
    passing: int
    results: int
    backends: int

    @property
    def query(self) -> str:
        """The query that selects the results of the score."""
        return f'family:"{self.name}"' if " " in self.name else f"family:{self.name}"

    @property
    def share(self) -> float:
        """The share of results that pass on all backends that have the result."""
        return self.passing / self.results if self.results else 0.0


def interop_scores(cells: Sequence[Cell], variants: Collection[str] = ()) -> list[Score]:
    """Return the score of each area and family, the lowest first.

    The score uses the newest run of each backend on its newest torch, in each mode. A result passes on a
    backend if it passes in all modes. A result that is declared unsupported does not pass. A result that only
    one backend has is ignored. The backends in ``variants`` are ignored too, because they are variants of
    other backends.
    """
    passes: dict[str, dict[str, bool]] = {}
    for cell in _newest_cells(cells):
        if cell.line is None or cell.backend in variants:
            continue
        table = cell.line.table_of(cell.newest)
        for case, (dtypes, letters) in table.cases.items():
            for dtype, letter in zip(dtypes, letters, strict=True):
                by_backend = passes.setdefault(f"{case}@{dtype}", {})
                by_backend[cell.backend] = by_backend.get(cell.backend, True) and letter in _PASS
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    backends: dict[str, set[str]] = collections.defaultdict(set)
    families: dict[str, str] = {}
    for name, by_backend in passes.items():
        if len(by_backend) < 2:
            continue
        subject = subject_of(name.rpartition("@")[0])
        family = families.setdefault(subject, operator_family(subject))
        counts[family][0] += all(by_backend.values())
        counts[family][1] += 1
        backends[family].update(by_backend)
    family_scores = [
        Score(family, AREAS[family].about if family in AREAS else "", passing, total, len(backends[family]))
        for family, (passing, total) in counts.items()
    ]
    return sorted(family_scores, key=lambda score: (score.share, -score.results, score.name))


def _newest_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cell of each backend and mode on its newest torch, without cells in an excluded state."""
    newest = {}
    for cell in cells:  # sorted by build, so the newest replaces older builds
        if cell_state.cell_state(cell) not in _OLD:
            newest[(cell.backend, cell.mode)] = cell
    return list(newest.values())
