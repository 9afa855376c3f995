"""The suite's own health: its verdicts on the devices that stand for torch itself, and what it detects."""

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

#: Backends on which an unexpected result is a fault of the suite, of the reference device or of torch.
OWN = ("cpu", "hpu-reference")
#: Verdicts that say more of a suite than of a device.
DOUBTFUL = ("flaky", "vacuous", "timeout", "error")


@dataclasses.dataclass(frozen=True)
class Health:
    """The newest run of one of these devices: results by what they say of the suite."""

    backend: str
    mode: str
    torch: str
    state: str
    results: int
    unexpected: int
    doubtful: tuple[tuple[str, int], ...]


def health_of(cells: Sequence[Cell]) -> list[Health]:
    """Return the health of each cell of these devices."""
    health = []
    for cell in cells:
        if cell.backend not in OWN or cell.line is None:
            continue
        letters = collections.Counter[str]()
        for _, of_case in cell.line.table_of(cell.newest).cases.values():
            letters.update(of_case)
        verdicts = {VERDICT_OF[letter]: count for letter, count in letters.items()}
        expected = sum(verdicts.get(verdict, 0) for verdict in ("pass", "xfail", "unsupported", "skip"))
        total = sum(verdicts.values())
        health.append(
            Health(
                cell.backend,
                cell.mode,
                cell.build.version,
                cell_state.state(cell),
                total,
                total - expected,
                tuple((verdict, verdicts[verdict]) for verdict in DOUBTFUL if verdicts.get(verdict)),
            )
        )
    return health


@dataclasses.dataclass(frozen=True)
class DetectionTrend:
    """The share of planted faults that a level saw, over time."""

    level: str
    trend: Trend


def detection_trends() -> list[DetectionTrend]:
    """Return the trend of each level's detection power; none if it was measured on one day only."""
    measured = MutationScores.read()
    days = [*measured.history, EarlierScores(measured.day, measured.levels)]
    trends = []
    for level in LEVELS:
        trend = Trend.of(
            [
                (datetime.datetime.fromisoformat(past.day), past.levels[level].killed / past.levels[level].of)
                for past in days
                if level in past.levels and past.levels[level].of
            ]
        )
        if trend is not None:
            trends.append(DetectionTrend(level, trend))
    return trends


def detection_scores() -> list[tuple[str, LevelScore]]:
    """Return the detection power of the installed suite by level, in the mode in which it was measured."""
    measured = MutationScores.read()
    scores = ((level, measured.of(level, measured.mode)) for level in LEVELS)
    return [(level, score) for level, score in scores if score is not None]
