"""Count killed mutants by mutation operator and by level."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Set

from conformance.model.vocabulary import LEVELS
from tools.mutation import equivalent_mutants, hold_out
from tools.mutation.campaign import Fate, MutantResult
from tools.mutation.coverage_run import CoverageData
from tools.mutation.mutant import Mutant


@dataclasses.dataclass
class Tally:
    """The numbers of mutants of one group: by fate, and killed by level.

    ``equivalent`` counts the survivors that a rule calls equivalent. ``parity`` counts the killed mutants
    that only results of basis parity kill. ``levels`` counts each killed mutant at the narrowest level that
    contains its killing result. ``by_point`` holds two numbers for each mutation point: the killed mutants,
    and the mutants that altered a call.
    """

    killed: int = 0
    survived: int = 0
    not_covered: int = 0
    equivalent: int = 0
    parity: int = 0
    levels: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(LEVELS, 0))
    by_point: dict[str, list[int]] = dataclasses.field(default_factory=dict)

    @property
    def altered(self) -> int:
        """The number of mutants that altered a call."""
        return self.killed + self.survived

    def killed_at(self, level: str) -> int:
        """Return the number of mutants that a level kills, including the mutants of narrower levels."""
        return sum(self.levels[name] for name in LEVELS[: LEVELS.index(level) + 1])

    def interval(self) -> tuple[float, float]:
        """Return the 95 % confidence interval of the share of killed mutants, from 0 to 1.

        The mutants of one point depend on each other. The interval is therefore that of a sample of points
        (a ratio estimator with a normal approximation). If no mutant survived, the lower end is 1 - 3 /
        points.
        """
        points = len(self.by_point)
        if not self.altered:
            return 0.0, 1.0
        if self.killed in (0, self.altered):
            bound = min(1.0, 3 / points)
            return (0.0, bound) if self.killed == 0 else (1 - bound, 1.0)
        share = self.killed / self.altered
        squares = sum((killed - share * altered) ** 2 for killed, altered in self.by_point.values())
        deviation = math.sqrt(squares * points / max(1, points - 1)) / self.altered
        return max(0.0, share - 1.96 * deviation), min(1.0, share + 1.96 * deviation)


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
    by: Callable[[Mutant], str | None] = operator_of,
) -> dict[str, Tally]:
    """Count outcomes by mutation operator, or by the group name that ``by`` returns. A mutant without a group
    name counts in the total only.

    Key ``all`` holds the total.
    """
    level_of = coverage_data.level_index_by_result()
    tallies: dict[str, Tally] = {"all": Tally()}
    for outcome in outcomes:
        mutant = Mutant.parse(outcome.mutant)
        group = by(mutant)
        groups = [tallies["all"]] if group is None else [tallies["all"], tallies.setdefault(group, Tally())]
        equivalent = (
            outcome.fate == Fate.SURVIVED.value and equivalent_mutants.equivalence_reason(mutant) is not None
        )
        for tally in groups:
            if outcome.fate == Fate.NOT_COVERED.value:
                tally.not_covered += 1
                continue
            numbers = tally.by_point.setdefault(mutant.point, [0, 0])
            numbers[1] += 1
            if outcome.fate == Fate.KILLED.value:
                numbers[0] += 1
                tally.killed += 1
                tally.parity += outcome.parity
                tally.levels[LEVELS[level_of[outcome.killer]] if outcome.killer else LEVELS[-1]] += 1
            else:
                tally.survived += 1
                tally.equivalent += equivalent
    return tallies


def tally_at_points(
    outcomes: Iterable[MutantResult], coverage_data: CoverageData, point_names: Set[str]
) -> Tally:
    """Return the tally of the mutants at the given points, such as the points that a level calls."""
    inside = [outcome for outcome in outcomes if Mutant.parse(outcome.mutant).point in point_names]
    return count_outcomes(inside, coverage_data)["all"]


def operator_half(mutant: Mutant) -> str:
    """Return ``HELD_OUT`` if the mutant's operator is held out, else ``OTHERS``."""
    return HELD_OUT if hold_out.is_operator_held_out(mutant.operator) else OTHERS


def parameter_half(mutant: Mutant) -> str | None:
    """Return ``HELD_OUT`` or ``OTHERS`` for the mutant's drawn parameter, or None if it has no parameter."""
    if not hold_out.has_parameter(mutant):
        return None
    return HELD_OUT if hold_out.has_held_out_parameter(mutant) else OTHERS


#: The names of the two halves of the mutation operators and of the parameters.
HELD_OUT = "held out"
OTHERS = "others"


def score_table(tallies: Mapping[str, Tally]) -> str:
    """Return the score as a table for the terminal."""
    lines = [f"{'operator':32} {'altered':>7} {'full':>6} {'core':>6} {'surv':>6} {'equiv':>6} {'notcov':>6}"]
    for operator, tally in sorted(tallies.items(), key=lambda item: -item[1].survived):
        part = [
            f"{100 * tally.killed_at(level) / max(1, tally.altered):5.1f}%" for level in (LEVELS[-1], "core")
        ]
        numbers = (tally.survived, tally.equivalent, tally.not_covered)
        lines.append(
            f"{operator:32} {tally.altered:7} {' '.join(part)} "
            f"{' '.join(f'{number:6}' for number in numbers)}"
        )
    return "\n".join(lines)
