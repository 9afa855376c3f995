"""The properties that the score needs, and the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from conformance.process_control.supervisor import Supervisor
from tests.unit.tools.mutation.test_campaign import words
from tools.mutation import necessary_properties
from tools.mutation.campaign import Fate, Job, MutantResult
from tools.mutation.mutant import Fault


class _Workers:
    """Answers as a device would on which some results see some mutants."""

    def __init__(self, sees: dict[str, set[str]]) -> None:
        self.sees = sees
        self.asked: list[str] = []

    def run_units(self, jobs: Iterable[Job], *, silence: float) -> Iterator[tuple[Job, Any]]:
        for job in jobs:
            self.asked.append(job["fault"])
            killer = next((one for one in job["results"] if job["fault"] in self.sees.get(one, ())), None)
            yield job, words(killer=killer, how="fail" if killer else None, effects=1)


def _mutant(place: str) -> str:
    return f"aten::{place} last-element 0 0 @any"


def test_a_property_is_needed_if_no_other_sees_a_mutant_of_its() -> None:
    a, b, c, d = map(_mutant, "abcd")
    due = {a: ["one/x@any", "two/x@any"], b: ["one/x@any"], c: ["two/x@any", "one/y@any"], d: ["three/x@any"]}
    workers = _Workers({"one/x@any": {a, b}, "two/x@any": {a, c}, "one/y@any": {c}})
    outcomes = [
        MutantResult(a, Fate.KILLED.value, "one/x@any", "fail"),
        MutantResult(b, Fate.KILLED.value, "one/x@any", "fail"),
        MutantResult(c, Fate.KILLED.value, "two/x@any", "fail"),
        MutantResult(d, Fate.SURVIVED.value),
    ]
    found = necessary_properties.standings(
        cast("Supervisor[Job]", workers),
        ["one", "two", "three"],
        outcomes,
        {Fault.parse(name): results for name, results in due.items()},
    )
    assert {row.name: (row.kills, row.tried, row.needed) for row in found} == {
        "one": (2, 1, b),  # no result is left for b, so that nothing has to be run
        "two": (1, 1, None),
        "three": (0, 0, None),
    }
    assert workers.asked == [c]
    text = "\n".join(necessary_properties.page(found))
    assert "1 properties each see a mutant that no other sees" in text
    assert "`two` (1 of 1)" in text and "`three`" in text
