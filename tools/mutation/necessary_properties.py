"""Find the necessary properties. Without a necessary property, the mutation score would fall."""

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
class PropertyNecessity:
    """The evidence that one property is necessary.

    Attributes:
        name: the property.
        kills: the number of mutants whose killing result belongs to the property.
        tried: the number of these mutants for which the results of the other properties were tried.
        needed: a tried mutant that the other properties did not kill, or None.
    """

    name: str
    kills: int = 0
    tried: int = 0
    needed: str | None = None


def property_of(result: str) -> str:
    """Return the property name of a result."""
    return result.partition("/")[0]


def count_necessary_mutants(
    workers: Supervisor[Job],
    names: Iterable[str],
    outcomes: Iterable[MutantResult],
    results: Mapping[Mutant, Sequence[str]],
) -> list[PropertyNecessity]:
    """Return the necessity of each of the properties ``names``.

    ``results`` maps each mutant to the results that trigger it. The mutants of a property with the fewest
    results of other properties are tried first.
    """
    necessity_by_property = {name: PropertyNecessity(name) for name in sorted(set(names))}
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
        mutants.sort(key=lambda mutant_and_results: len(mutant_and_results[1]))
    for job, reply in workers.run_units(jobs(), silence=campaign.PATIENCE):
        necessity = necessity_by_property[job["of"]]
        necessity.tried += 1
        ended = campaign.mutant_result(job, reply)
        if ended.fate != Fate.KILLED.value and ended.ran == ended.selected:
            necessity.needed = necessity.needed or job["fault"]
    return list(necessity_by_property.values())


def page_lines(necessities: Iterable[PropertyNecessity]) -> Iterator[str]:
    """Yield the lines about properties on the score page."""
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
        f"{len(shared)} properties each killed mutants, but other properties also killed every tried one of "
        f"these mutants (tried of killed, at most {TRIED_MUTANTS} tried):"
    )
    yield ""
    yield ", ".join(f"`{row.name}` ({row.tried} of {row.kills})" for row in shared) or "none"
    yield ""
    yield (
        f"{len(idle)} properties killed no mutant. The score would be the same without them: each of them is "
        "redundant, or no mutation operator exists that only this property kills. Most of them check layers "
        "above kernels: modules, transforms, files and other modes."
    )
    yield ""
    yield ", ".join(f"`{name}`" for name in idle) or "none"
