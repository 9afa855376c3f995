"""Count killed mutants by mutation operator and by level."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Set

from conformance.model.vocabulary import LEVELS
from tools.mutation import equivalent_mutants
from tools.mutation.campaign import Fate, MutantResult
from tools.mutation.coverage_run import CoverageData
from tools.mutation.mutant import Mutant


@dataclasses.dataclass
class Tally:
    """The numbers of mutants of one group: by fate, equivalent (``excused``), and killed by level.

    ``parity`` counts the killed mutants that only results of basis parity kill.
    ``levels`` counts each killed mutant at the narrowest level that contains its killing result.
    """

    killed: int = 0
    survived: int = 0
    asleep: int = 0
    excused: int = 0
    parity: int = 0
    levels: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(LEVELS, 0))

    @property
    def counted(self) -> int:
        """The number of mutants that are not equivalent."""
        return self.killed + self.survived + self.asleep

    def killed_at(self, level: str) -> int:
        """Return the number of mutants that a level kills, including the mutants of narrower levels."""
        return sum(self.levels[name] for name in LEVELS[: LEVELS.index(level) + 1])


def operator_of(mutant: Mutant) -> str:
    """Return the operator of a mutant."""
    return mutant.operator


def family_of_point(mutant: Mutant) -> str:
    """Return the display name of the family of a mutant's point."""
    family, _, name = mutant.point.partition("::")
    if family != "aten":
        return _FAMILIES.get(family, family)
    bare, _, overload = name.partition(".")
    if bare in ("copy_", "_to_copy", "clone"):
        return "copies"
    if "backward" in bare:
        return "kernels of derivatives"
    if "out" in overload or overload in ("grad_input", "values", "dim_values"):
        return "kernels with out="
    return "kernels in place" if bare.endswith("_") else "kernels of functions"


_FAMILIES = {
    "autocast": "autocast",
    "guard": "streams and events",
    "module": "the device's module",
    "accelerator": "torch.accelerator",
    "generator": "generator objects",
    "c10d": "collectives",
    "compile": "compiled graphs",
    "graph": "replays",
}


def count_outcomes(
    outcomes: Iterable[MutantResult],
    coverage_data: CoverageData,
    calls: Mapping[tuple[str, str], Set[str]],
    by: Callable[[Mutant], str] = operator_of,
) -> dict[str, Tally]:
    """Count outcomes by mutation operator, or by the group name that ``by`` returns.

    Key ``all`` holds the total.
    """
    level_of = coverage_data.level_index_by_result()
    tallies: dict[str, Tally] = {"all": Tally()}
    for outcome in outcomes:
        mutant = Mutant.parse(outcome.mutant)
        for tally in (tallies["all"], tallies.setdefault(by(mutant), Tally())):
            if outcome.fate == Fate.KILLED.value:
                tally.killed += 1
                tally.parity += outcome.parity
                tally.levels[LEVELS[level_of[outcome.killer]] if outcome.killer else LEVELS[-1]] += 1
            elif (
                mutant.is_of_kernel
                and equivalent_mutants.equivalence_reason(mutant, outcome.fate, calls) is not None
            ):
                tally.excused += 1
            elif outcome.fate == Fate.SURVIVED.value:
                tally.survived += 1
            else:
                tally.asleep += 1
    return tallies


def count_at_points(
    outcomes: Iterable[MutantResult],
    coverage_data: CoverageData,
    calls: Mapping[tuple[str, str], Set[str]],
    point_names: Set[str],
) -> Tally:
    """Count the outcomes at some points, such as the points that the results of a level call."""
    inside = [outcome for outcome in outcomes if Mutant.parse(outcome.mutant).point in point_names]
    return count_outcomes(inside, coverage_data, calls)["all"]


def score_table(tallies: Mapping[str, Tally]) -> str:
    """Return the score as a table for the terminal."""
    lines = [f"{'operator':32} {'all':>6} {'full':>6} {'core':>6} {'surv':>6} {'notcov':>6} {'equiv':>6}"]
    for operator, tally in sorted(tallies.items(), key=lambda item: -item[1].survived - item[1].asleep):
        part = [
            f"{100 * tally.killed_at(level) / max(1, tally.counted):5.1f}%" for level in (LEVELS[-1], "core")
        ]
        numbers = (tally.survived, tally.asleep, tally.excused)
        lines.append(
            f"{operator:32} {tally.counted:6} {' '.join(part)} "
            f"{' '.join(f'{number:6}' for number in numbers)}"
        )
    return "\n".join(lines)
