"""The detection power of each level: how many planted faults its results see, as committed data.

``python -m tools.mutation --record`` writes ``detection.json`` beside the levels from a whole run; it is
read here without torch. Certificates carry it.
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
    """Mutants that the results of a level killed, of all that count, and the same at places that it calls."""

    killed: int
    of: int
    killed_called: int
    of_called: int

    def words(self) -> str:
        """Return ``84.2 % of 9,812 planted faults, 91.0 % of the 9,000 at places that it calls``."""
        return (
            f"{_share(self.killed, self.of)} of {self.of:,} planted faults, "
            f"{_share(self.killed_called, self.of_called)} of the {self.of_called:,} at places that it calls"
        )


@dataclasses.dataclass(frozen=True)
class EarlierScores:
    """The power of each level as it was measured on a day, ``2026-11-25``."""

    day: str
    levels: Mapping[str, LevelScore]


@dataclasses.dataclass(frozen=True)
class Detection:
    """The figures of one run: its target, mode and minor of torch (``2.13``), and the power of each level.

    ``history`` has those of earlier runs, one for a day, in the order of their days.
    """

    target: str
    mode: str
    torch: str
    day: str
    levels: Mapping[str, LevelScore]
    history: tuple[EarlierScores, ...] = ()

    def write(self, path: Path = PATH) -> None:
        """Write the figures as JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    def after(self, before: Detection) -> Detection:
        """Return these figures with the history of earlier ones of their target and mode, now part of it."""
        if (before.target, before.mode) != (self.target, self.mode):
            return self
        past = (*before.history, EarlierScores(before.day, before.levels))
        return dataclasses.replace(self, history=tuple(one for one in past if one.day < self.day))

    @staticmethod
    def read(path: Path = PATH) -> Detection:
        """Read what :meth:`write` wrote."""
        data = json.loads(path.read_text())
        history = tuple(EarlierScores(past["day"], _powers(past["levels"])) for past in data["history"])
        return Detection(
            data["target"], data["mode"], data["torch"], data["day"], _powers(data["levels"]), history
        )

    def of(self, level: str, mode: str) -> LevelScore | None:
        """Return the power of a level; None in a mode in which it was not measured."""
        return self.levels.get(level) if mode == self.mode else None


def _powers(levels: Mapping[str, Mapping[str, int]]) -> dict[str, LevelScore]:
    return {level: LevelScore(**numbers) for level, numbers in levels.items()}


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"
