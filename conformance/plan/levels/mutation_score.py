"""The committed mutation score of each level: the share of mutants that the results of the level kill.

After a complete run, ``python -m tools.mutation --record`` writes ``mutation_score.json`` next to the levels.
This module reads the file without importing torch. Certificates contain the score.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from conformance.plan import levels

PATH = levels.FOLDER / "mutation_score.json"


@dataclasses.dataclass(frozen=True)
class LevelScore:
    """The mutation score of a level.

    ``of`` is the number of mutants, and ``killed`` is the number of mutants that the results of the level
    killed. ``of_called`` and ``killed_called`` count only the mutants in code that the level calls.
    """

    killed: int
    of: int
    killed_called: int
    of_called: int

    def describe(self) -> str:
        """Return the score as text: ``84.2 % of 9,812 mutants, 91.0 % of the 9,000 mutants in code that it
        calls``.
        """
        return (
            f"{_percentage(self.killed, self.of)} of {self.of:,} mutants, "
            f"{_percentage(self.killed_called, self.of_called)} of the {self.of_called:,} mutants in code "
            "that it calls"
        )


@dataclasses.dataclass(frozen=True)
class EarlierScores:
    """The mutation score of each level on an earlier day, such as ``2026-11-25``."""

    day: str
    levels: Mapping[str, LevelScore]


@dataclasses.dataclass(frozen=True)
class MutationScores:
    """The scores of one run of mutation testing: its target, mode and torch minor (``2.13``), and the score
    of each level.

    ``history`` has the scores of earlier runs, one per day, in chronological order.
    """

    target: str
    mode: str
    torch: str
    day: str
    levels: Mapping[str, LevelScore]
    history: tuple[EarlierScores, ...] = ()

    def write(self, path: Path = PATH) -> None:
        """Write the scores as JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    def with_history_of(self, before: MutationScores) -> MutationScores:
        """Return a copy of these scores with a history: the history of ``before``, then the scores of
        ``before`` itself. Return these scores unchanged if ``before`` has a different target or mode.
        """
        if (before.target, before.mode) != (self.target, self.mode):
            return self
        past = (*before.history, EarlierScores(before.day, before.levels))
        return dataclasses.replace(self, history=tuple(scores for scores in past if scores.day < self.day))

    @staticmethod
    def read(path: Path = PATH) -> MutationScores:
        """Return the scores that :meth:`write` wrote."""
        data = json.loads(path.read_text())
        history = tuple(EarlierScores(past["day"], _level_scores(past["levels"])) for past in data["history"])
        return MutationScores(
            data["target"], data["mode"], data["torch"], data["day"], _level_scores(data["levels"]), history
        )

    def of(self, level: str, mode: str) -> LevelScore | None:
        """Return the score of a level; None if the scores were measured in a different mode."""
        return self.levels.get(level) if mode == self.mode else None


def _level_scores(levels: Mapping[str, Mapping[str, int]]) -> dict[str, LevelScore]:
    return {level: LevelScore(**numbers) for level, numbers in levels.items()}


def _percentage(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"
