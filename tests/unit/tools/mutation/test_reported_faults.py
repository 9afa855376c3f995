"""Reported faults of real backends are planted as they were reported, or say why they cannot be."""

from tools.mutation import injectors, operators, points, reported_faults
from tools.mutation.campaign import Fate, MutantResult


def test_every_reported_fault_is_planted_or_says_why_not() -> None:
    rows = reported_faults.load()
    assert len({row.id for row in rows}) == len(rows) == 112
    for row in rows:
        assert bool(row.planted) != bool(row.not_expressible), row.id
        assert row.report.startswith("https://"), row.id


def test_what_is_planted_is_a_fault_that_its_place_can_have() -> None:
    for row in reported_faults.load():
        for fault in row.planted:
            assert fault.kind in injectors.KINDS
            if not fault.is_of_kernel:
                continue
            schema = points.schema(fault.place)
            known = operators.faults_of(fault.place, schema, random=points.is_random(fault.place))
            assert fault.anywhere() in known, (row.id, str(fault))


def test_a_reported_fault_is_killed_if_all_of_its_mutants_are() -> None:
    first, second = (row for row in reported_faults.load() if row.id in ("HF-001", "HF-002"))
    outcomes = [MutantResult(str(fault), Fate.KILLED.value) for fault in (*first.planted, *second.planted)]
    assert reported_faults.count(outcomes).killed == [first, second]
    assert reported_faults.count([*outcomes, MutantResult(outcomes[0].mutant, Fate.ASLEEP.value)]).unseen == [
        first
    ]
    assert len(reported_faults.count([]).not_expressible) == 112


def test_mutants_are_those_that_the_device_can_have() -> None:
    first = reported_faults.load()[0].planted[0]
    assert reported_faults.mutants([str(first.anywhere())]) == [first]
