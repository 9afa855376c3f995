"""``tools.mutation.necessary_properties`` finds the properties that alone kill a mutant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from conformance.process_control.supervisor import Supervisor
from tests.unit.tools.mutation.test_campaign import worker_reply
from tools.mutation import necessary_properties
from tools.mutation.campaign import Fate, Job, MutantResult
from tools.mutation.mutant import Mutant


class _Workers:
    """A replacement for the supervisor of workers. ``killed_by_result`` maps each result to the
    mutants that it kills.
    """

    def __init__(self, killed_by_result: dict[str, set[str]]) -> None:
        self.killed_by_result = killed_by_result
        self.asked: list[str] = []

    def run_units(self, jobs: Iterable[Job], *, silence: float) -> Iterator[tuple[Job, Any]]:
        for job in jobs:
            self.asked.append(job["fault"])
            killer = next(
                (
                    result_id
                    for result_id in job["results"]
                    if job["fault"] in self.killed_by_result.get(result_id, ())
                ),
                None,
            )
            yield job, worker_reply(killer=killer, how="fail" if killer else None, effects=1)


def _mutant_of_overload(overload_name: str) -> str:
    return f"aten::{overload_name} last-element 0 0 @any"


def test_a_property_is_necessary_if_it_alone_kills_a_mutant() -> None:
    a, b, c, d = map(_mutant_of_overload, "abcd")
    results_by_mutant = {
        a: ["one/x@any", "two/x@any"],
        b: ["one/x@any"],
        c: ["two/x@any", "one/y@any"],
        d: ["three/x@any"],
    }
    workers = _Workers({"one/x@any": {a, b}, "two/x@any": {a, c}, "one/y@any": {c}})
    outcomes = [
        MutantResult(a, Fate.KILLED.value, "one/x@any", "fail"),
        MutantResult(b, Fate.KILLED.value, "one/x@any", "fail"),
        MutantResult(c, Fate.KILLED.value, "two/x@any", "fail"),
        MutantResult(d, Fate.SURVIVED.value),
    ]
    necessity_rows = necessary_properties.count_necessary_mutants(
        cast("Supervisor[Job]", workers),
        ["one", "two", "three"],
        outcomes,
        {Mutant.parse(name): results for name, results in results_by_mutant.items()},
    )
    assert {row.name: (row.kills, row.tried, row.needed) for row in necessity_rows} == {
        "one": (2, 1, b),  # no other result is left to run for mutant b
        "two": (1, 1, None),
        "three": (0, 0, None),
    }
    assert workers.asked == [c]
    text = "\n".join(necessary_properties.page_lines(necessity_rows))
    assert "1 properties each kill a mutant that no other tried result kills" in text
    assert "`two` (1 of 1)" in text and "`three`" in text
