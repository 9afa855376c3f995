"""Find the necessary properties: without them, the score would fall."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from conformance.process_control.supervisor import Supervisor
from tools.mutation import campaign
from tools.mutation.campaign import Fate, Job, MutantResult
from tools.mutation.mutant import Mutant

#: The maximal number of a property's mutants that are tried on the results of the other properties.
TRIED_MUTANTS = 12


@dataclasses.dataclass
class Necessity:
    """A property: the number of mutants that it ``kills`` first, the number ``tried`` without it, and a
    mutant for which it is ``needed``.

    ``needed`` is None if the other properties killed all tried mutants.
    """

    name: str
    kills: int = 0
    tried: int = 0
    needed: str | None = None


def property_of(result: str) -> str:
    """Return the property name of a result."""
    return result.partition("/")[0]


def necessity_of_properties(
    workers: Supervisor[Job],
    names: Iterable[str],
    outcomes: Iterable[MutantResult],
    results: Mapping[Mutant, Sequence[str]],
) -> list[Necessity]:
    """Return the necessity of each of the properties ``names``.

    ``results`` holds the triggering results of each mutant. Mutants with the fewest results of other
    properties are tried first.
    """
    necessity_by_property = {name: Necessity(name) for name in sorted(set(names))}
    mutants_by_property: dict[str, list[tuple[str, list[str]]]] = {}
    for outcome in outcomes:
        if outcome.fate != Fate.KILLED.value or outcome.killer is None:
            continue
        name = property_of(outcome.killer)
        other_results = [
            result_id for result_id in results[Mutant.parse(outcome.mutant)] if property_of(result_id) != name
        ]
        necessity_by_property[name].kills += 1
        mutants_by_property.setdefault(name, []).append((outcome.mutant, other_results))

    def jobs() -> Iterator[Job]:
        for turn in range(TRIED_MUTANTS):
            for name, mutants in mutants_by_property.items():
                if turn < len(mutants) and necessity_by_property[name].needed is None:
                    mutant, other_results = mutants[turn]
                    if other_results:
                        yield {
                            "do": "attempt",
                            "fault": mutant,
                            "results": other_results,
                            "limit": campaign.LIMIT,
                            "of": name,
                        }
                    else:
                        necessity_by_property[name].tried += 1
                        necessity_by_property[name].needed = mutant

    for mutants in mutants_by_property.values():
        mutants.sort(key=lambda result_id: len(result_id[1]))
    for job, reply in workers.run_units(jobs(), silence=campaign.PATIENCE):
        standing = necessity_by_property[job["of"]]
        standing.tried += 1
        ended = campaign.outcome(job, reply)
        if ended.fate != Fate.KILLED.value and ended.ran == ended.due:
            standing.needed = standing.needed or job["fault"]
    return list(necessity_by_property.values())


def page_lines(necessities: Iterable[Necessity]) -> Iterator[str]:
    """Yield the lines of the score page about properties."""
    rows = list(necessities)
    needed = [row for row in rows if row.needed is not None]
    shared = [row for row in rows if row.kills and row.needed is None]
    idle = [row.name for row in rows if not row.kills]
    yield "## Properties"
    yield ""
    yield (
        f"{len(needed)} properties each kill a mutant that no other tried result kills. "
        "Without them the score would fall:"
    )
    yield ""
    yield ", ".join(f"`{row.name}`" for row in needed) or "none"
    yield ""
    yield (
        f"{len(shared)} kill mutants first that other properties kill too, in all tries without them, "
        f"at most {TRIED_MUTANTS}:"
    )
    yield ""
    yield ", ".join(f"`{row.name}` ({row.tried} of {row.kills})" for row in shared) or "none"
    yield ""
    yield (
        f"The removal of these {len(idle)} would change no figure: they are redundant, or a "
        "mutation operator "
        "that only they would kill is missing. Most check layers above kernels: modules, transforms, "
        "files and other modes."
    )
    yield ""
    yield ", ".join(f"`{name}`" for name in idle) or "none"
