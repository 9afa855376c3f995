"""Reported faults of real backends are planted as they were reported, or say why they cannot be."""

from conformance.power import historical, kinds, places, planters
from conformance.power.campaign import Fate, Outcome


def test_every_reported_fault_is_planted_or_says_why_not() -> None:
    rows = historical.load()
    assert len({row.id for row in rows}) == len(rows) == 112
    for row in rows:
        assert bool(row.planted) != bool(row.not_expressible), row.id
        assert row.report.startswith("https://"), row.id


def test_what_is_planted_is_a_fault_that_its_place_can_have() -> None:
    for row in historical.load():
        for fault in row.planted:
            assert fault.kind in planters.KINDS
            if not fault.is_of_kernel:
                continue
            schema = places.schema(fault.place)
            known = kinds.faults_of(fault.place, schema, random=places.is_random(fault.place))
            assert fault.anywhere() in known, (row.id, str(fault))


def test_a_reported_fault_is_killed_if_all_of_its_mutants_are() -> None:
    first, second = (row for row in historical.load() if row.id in ("HF-001", "HF-002"))
    outcomes = [Outcome(str(fault), Fate.KILLED.value) for fault in (*first.planted, *second.planted)]
    assert historical.count(outcomes).killed == [first, second]
    assert historical.count([*outcomes, Outcome(outcomes[0].mutant, Fate.ASLEEP.value)]).unseen == [first]
    assert len(historical.count([]).not_expressible) == 112


def test_mutants_are_those_that_the_device_can_have() -> None:
    first = historical.load()[0].planted[0]
    assert historical.mutants([str(first.anywhere())]) == [first]
