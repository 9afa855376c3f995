"""Properties that the score needs, and those whose removal would change no figure of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from conformance.process_control.supervisor import Supervisor
from tools.mutation import campaign
from tools.mutation.campaign import Fate, Job, MutantResult
from tools.mutation.mutant import Fault

#: Mutants of a property that are tried on the results of all others.
TRIED = 12


@dataclasses.dataclass
class Necessity:
    """A property: the mutants that it ``kills`` first, of which ``tried`` were tried without it, and one that
    is ``needed`` to be seen by it; None if the others killed all that were tried.
    """

    name: str
    kills: int = 0
    tried: int = 0
    needed: str | None = None


def property_of(result: str) -> str:
    """Return the name of the property of a result."""
    return result.partition("/")[0]


def standings(
    workers: Supervisor[Job],
    names: Iterable[str],
    outcomes: Iterable[MutantResult],
    results: Mapping[Fault, Sequence[str]],
) -> list[Necessity]:
    """Return how each of the properties ``names`` stands.

    ``results`` are those that can wake each mutant. Those mutants are tried first for which fewest results
    are left without the property.
    """
    found = {name: Necessity(name) for name in sorted(set(names))}
    left: dict[str, list[tuple[str, list[str]]]] = {}
    for outcome in outcomes:
        if outcome.fate != Fate.KILLED.value or outcome.killer is None:
            continue
        name = property_of(outcome.killer)
        others = [one for one in results[Fault.parse(outcome.mutant)] if property_of(one) != name]
        found[name].kills += 1
        left.setdefault(name, []).append((outcome.mutant, others))

    def jobs() -> Iterator[Job]:
        for turn in range(TRIED):
            for name, mutants in left.items():
                if turn < len(mutants) and found[name].needed is None:
                    mutant, others = mutants[turn]
                    if others:
                        yield {
                            "do": "attempt",
                            "fault": mutant,
                            "results": others,
                            "limit": campaign.LIMIT,
                            "of": name,
                        }
                    else:
                        found[name].tried += 1
                        found[name].needed = mutant

    for mutants in left.values():
        mutants.sort(key=lambda one: len(one[1]))
    for job, reply in workers.run_units(jobs(), silence=campaign.PATIENCE):
        standing = found[job["of"]]
        standing.tried += 1
        ended = campaign.outcome(job, reply)
        if ended.fate != Fate.KILLED.value and ended.ran == ended.due:
            standing.needed = standing.needed or job["fault"]
    return list(found.values())


def page(found: Iterable[Necessity]) -> Iterator[str]:
    """Yield the lines of the page of the score about properties."""
    rows = list(found)
    needed = [row for row in rows if row.needed is not None]
    shared = [row for row in rows if row.kills and row.needed is None]
    idle = [row.name for row in rows if not row.kills]
    yield "## Properties"
    yield ""
    yield (
        f"{len(needed)} properties each see a mutant that no other sees of the results that were tried. "
        "Without them the score would fall:"
    )
    yield ""
    yield ", ".join(f"`{row.name}`" for row in needed) or "none"
    yield ""
    yield (
        f"{len(shared)} see mutants first that others see as well, in all that were tried without them, "
        f"{TRIED} at most:"
    )
    yield ""
    yield ", ".join(f"`{row.name}` ({row.tried} of {row.kills})" for row in shared) or "none"
    yield ""
    yield (
        f"The removal of these {len(idle)} would change no figure: they are redundant, or a kind of fault "
        "that only they would see is missing. Most state what happens above kernels: modules, transforms, "
        "files, other modes."
    )
    yield ""
    yield ", ".join(f"`{name}`" for name in idle) or "none"
