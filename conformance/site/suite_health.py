"""The health of the suite: its verdicts on the CPU and the reference device, and its mutation scores."""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Sequence

from conformance.model.vocabulary import LEVELS
from conformance.plan.levels.mutation_score import EarlierScores, LevelScore, MutationScores
from conformance.site import cell_state
from conformance.site.matrix_cells import Cell
from conformance.site.sparkline import Trend
from conformance.site.store.verdict_table import VERDICT_OF

#: The backends of this project. An unexpected result on them is a fault of the suite, the reference device or
#: torch.
OWN = ("cpu", "hpu-reference")
#: Verdicts that usually indicate a fault of the suite.
DOUBTFUL = ("flaky", "vacuous", "timeout", "error")


@dataclasses.dataclass(frozen=True)
class SuiteHealth:
    """The result counts of the newest run on one of the backends in ``OWN``."""

    backend: str
    mode: str
    torch: str
    state: str
    results: int
    unexpected: int
    doubtful: tuple[tuple[str, int], ...]


def suite_health(cells: Sequence[Cell]) -> list[SuiteHealth]:
    """Return the health of each cell of the backends in ``OWN``."""
    health = []
    for cell in cells:
        if cell.backend not in OWN or cell.line is None:
            continue
        letters = collections.Counter[str]()
        for _, of_case in cell.line.table_of(cell.newest).cases.values():
            letters.update(of_case)
        verdicts = {VERDICT_OF[letter]: count for letter, count in letters.items()}
        expected = sum(
            verdicts.get(verdict, 0) for verdict in ("pass", "xfail", "parity", "unsupported", "skip")
        )
        total = sum(verdicts.values())
        health.append(
            SuiteHealth(
                cell.backend,
                cell.mode,
                cell.build.version,
                cell_state.cell_state(cell),
                total,
                total - expected,
                tuple((verdict, verdicts[verdict]) for verdict in DOUBTFUL if verdicts.get(verdict)),
            )
        )
    return health


@dataclasses.dataclass(frozen=True)
class MutationScoreTrend:
    """The mutation score of a level over time."""

    level: str
    trend: Trend


def mutation_score_trends() -> list[MutationScoreTrend]:
    """Return the mutation score of each level over time. A level measured only once is omitted."""
    measured = MutationScores.read()
    days = [*measured.history, EarlierScores(measured.day, measured.levels)]
    trends = []
    for level in LEVELS:
        trend = Trend.from_values(
            [
                (datetime.datetime.fromisoformat(past.day), past.levels[level].killed / past.levels[level].of)
                for past in days
                if level in past.levels and past.levels[level].of
            ]
        )
        if trend is not None:
            trends.append(MutationScoreTrend(level, trend))
    return trends


def mutation_scores() -> list[tuple[str, LevelScore]]:
    """Return the mutation score of the installed suite by level, in the measured mode."""
    measured = MutationScores.read()
    scores = ((level, measured.of(level, measured.mode)) for level in LEVELS)
    return [(level, score) for level, score in scores if score is not None]
