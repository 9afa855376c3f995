"""Publicly reported bugs of real backends, expressed as mutants."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.mutation.campaign import Fate, MutantResult
from tools.mutation.mutant import Mutant

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILE = Path(__file__).parent / "reported_faults.toml"


@dataclasses.dataclass(frozen=True)
class ReportedFault:
    """A reported bug: the URL of its ``report`` and the mutants that represent the bug.

    ``not_expressible`` is the reason why no mutant can represent the bug, or empty. ``scale`` describes how a
    trigger condition was scaled down, or is empty.
    """

    id: str
    report: str
    mutants: tuple[Mutant, ...] = ()
    not_expressible: str = ""
    scale: str = ""


@functools.cache
def load_reported_faults() -> Sequence[ReportedFault]:
    """Return all reported bugs."""
    rows = tomllib.loads(_FILE.read_text())["fault"]
    return tuple(
        ReportedFault(
            row["id"],
            row["report"],
            tuple(Mutant.parse(text) for text in row.get("planted", ())),
            row.get("not_expressible", ""),
            row.get("scale", ""),
        )
        for row in rows
    )


def mutants_of_kernels() -> list[Mutant]:
    """Return the mutants of kernels among the mutants of the reported bugs, each in every dtype."""
    mutants = [mutant for row in load_reported_faults() for mutant in row.mutants if mutant.is_of_kernel]
    return list(dict.fromkeys(mutant.in_every_dtype() for mutant in mutants))


def mutants_of_reported_faults(possible_mutants: Iterable[str]) -> list[Mutant]:
    """Return the mutants of the reported bugs that are possible on the device. ``possible_mutants`` are
    compared without dtypes.
    """
    names = set(possible_mutants)
    reported_mutants = [
        mutant
        for row in load_reported_faults()
        for mutant in row.mutants
        if str(mutant.in_every_dtype()) in names
    ]
    return list(dict.fromkeys(reported_mutants))


@dataclasses.dataclass
class Tally:
    """The reported bugs by outcome. A bug counts as killed if all of its mutants are killed."""

    killed: list[ReportedFault] = dataclasses.field(default_factory=list)
    not_killed: list[ReportedFault] = dataclasses.field(default_factory=list)
    not_expressible: list[ReportedFault] = dataclasses.field(default_factory=list)


def count_reported_faults(outcomes: Iterable[MutantResult]) -> Tally:
    """Sort the reported bugs into killed, not killed and not expressible, by the fates of their mutants."""
    fates = {outcome.mutant: outcome.fate for outcome in outcomes}
    tally = Tally()
    for row in load_reported_faults():
        mutant_fates = [fates[str(mutant)] for mutant in row.mutants if str(mutant) in fates]
        if not mutant_fates:
            tally.not_expressible.append(row)
        elif all(fate == Fate.KILLED.value for fate in mutant_fates):
            tally.killed.append(row)
        else:
            tally.not_killed.append(row)
    return tally
