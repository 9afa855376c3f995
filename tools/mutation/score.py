"""The score: how many mutants were killed, by kind and by level."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Set

from conformance.model.vocabulary import LEVELS
from tools.mutation import equivalent_mutants
from tools.mutation.campaign import Fate, MutantResult
from tools.mutation.coverage_run import Learned
from tools.mutation.mutant import Fault


@dataclasses.dataclass
class Tally:
    """Mutants of one sort: by fate, and of the killed ones by the level that killed them."""

    killed: int = 0
    survived: int = 0
    asleep: int = 0
    excused: int = 0
    levels: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(LEVELS, 0))

    @property
    def counted(self) -> int:
        """The mutants that are not excused."""
        return self.killed + self.survived + self.asleep

    def killed_at(self, level: str) -> int:
        """The mutants that a level kills, with what narrower ones kill."""
        return sum(self.levels[name] for name in LEVELS[: LEVELS.index(level) + 1])


def kind_of(fault: Fault) -> str:
    """Return the kind of a fault."""
    return fault.kind


def sort_of_place(fault: Fault) -> str:
    """Return a word for the sort of place at which a fault is planted."""
    family, _, name = fault.place.partition("::")
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


def count(
    outcomes: Iterable[MutantResult],
    learned: Learned,
    calls: Mapping[tuple[str, str], Set[str]],
    by: Callable[[Fault], str] = kind_of,
) -> dict[str, Tally]:
    """Count outcomes by kind, or by another word for a fault; under ``all`` together."""
    level_of = learned.level_of()
    tallies: dict[str, Tally] = {"all": Tally()}
    for outcome in outcomes:
        fault = Fault.parse(outcome.mutant)
        for tally in (tallies["all"], tallies.setdefault(by(fault), Tally())):
            if outcome.fate == Fate.KILLED.value:
                tally.killed += 1
                tally.levels[LEVELS[level_of[outcome.killer]] if outcome.killer else LEVELS[-1]] += 1
            elif fault.is_of_kernel and equivalent_mutants.reason(fault, outcome.fate, calls) is not None:
                tally.excused += 1
            elif outcome.fate == Fate.SURVIVED.value:
                tally.survived += 1
            else:
                tally.asleep += 1
    return tallies


def within(
    outcomes: Iterable[MutantResult],
    learned: Learned,
    calls: Mapping[tuple[str, str], Set[str]],
    places: Set[str],
) -> Tally:
    """Count the outcomes at some places, such as those that the results of a level call; the others are
    beyond its breadth.
    """
    inside = [outcome for outcome in outcomes if Fault.parse(outcome.mutant).place in places]
    return count(inside, learned, calls)["all"]


def text(tallies: Mapping[str, Tally]) -> str:
    """Return a table for a terminal."""
    lines = [f"{'kind':32} {'all':>6} {'full':>6} {'core':>6} {'surv':>6} {'sleep':>6} {'excus':>6}"]
    for kind, tally in sorted(tallies.items(), key=lambda item: -item[1].survived - item[1].asleep):
        part = [
            f"{100 * tally.killed_at(level) / max(1, tally.counted):5.1f}%" for level in (LEVELS[-1], "core")
        ]
        numbers = (tally.survived, tally.asleep, tally.excused)
        lines.append(
            f"{kind:32} {tally.counted:6} {' '.join(part)} {' '.join(f'{number:6}' for number in numbers)}"
        )
    return "\n".join(lines)
