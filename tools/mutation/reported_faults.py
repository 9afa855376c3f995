"""Faults of real backends that were reported in public, as the interposer can plant them."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.mutation.campaign import Fate, MutantResult
from tools.mutation.mutant import Fault

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILE = Path(__file__).parent / "reported_faults.toml"


@dataclasses.dataclass(frozen=True)
class Historical:
    """A reported fault: the address of its ``report``, the mutants that stand for it, or why none can.

    ``scale`` says how a condition was scaled down, empty if it was not.
    """

    id: str
    report: str
    planted: tuple[Fault, ...] = ()
    not_expressible: str = ""
    scale: str = ""


@functools.cache
def load() -> Sequence[Historical]:
    """Return every reported fault."""
    rows = tomllib.loads(_FILE.read_text())["fault"]
    return tuple(
        Historical(
            row["id"],
            row["report"],
            tuple(Fault.parse(text) for text in row.get("planted", ())),
            row.get("not_expressible", ""),
            row.get("scale", ""),
        )
        for row in rows
    )


def mutants(known: Iterable[str]) -> list[Fault]:
    """Return the mutants that stand for reported faults, of the faults that a device can have."""
    names = set(known)
    found = [fault for row in load() for fault in row.planted if str(fault.anywhere()) in names]
    return list(dict.fromkeys(found))


@dataclasses.dataclass
class Tally:
    """Reported faults by what the suite makes of them; one is killed if all of its mutants are."""

    killed: list[Historical] = dataclasses.field(default_factory=list)
    unseen: list[Historical] = dataclasses.field(default_factory=list)
    not_expressible: list[Historical] = dataclasses.field(default_factory=list)


def count(outcomes: Iterable[MutantResult]) -> Tally:
    """Sort the reported faults by the outcomes of their mutants."""
    fates = {outcome.mutant: outcome.fate for outcome in outcomes}
    tally = Tally()
    for row in load():
        known = [fates[str(fault)] for fault in row.planted if str(fault) in fates]
        if not known:
            tally.not_expressible.append(row)
        elif all(fate == Fate.KILLED.value for fate in known):
            tally.killed.append(row)
        else:
            tally.unseen.append(row)
    return tally
