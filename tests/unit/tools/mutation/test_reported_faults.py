"""Each reported fault of a real backend is expressed as mutants, or has a reason why it cannot be."""

from tools.mutation import injectors, operators, parameters, points, reported_faults
from tools.mutation.campaign import Fate, MutantResult


def test_every_reported_fault_is_injected_or_has_a_reason() -> None:
    rows = reported_faults.load_reported_faults()
    assert len({row.id for row in rows}) == len(rows) == 112
    for row in rows:
        assert bool(row.mutants) != bool(row.not_expressible), row.id
        assert row.report.startswith("https://"), row.id


def test_an_injected_fault_is_possible_at_its_mutation_point() -> None:
    for row in reported_faults.load_reported_faults():
        for fault in row.mutants:
            assert fault.operator in injectors.MUTATION_OPERATORS
            if not fault.is_of_kernel:
                continue
            schema = points.schema_of(fault.point)
            possible_faults = operators.mutants_of_overload(
                fault.point, schema, random=points.is_random(fault.point)
            )
            operators_and_positions = {(mutant.operator, mutant.position) for mutant in possible_faults}
            assert (fault.operator, fault.position) in operators_and_positions, (row.id, str(fault))
            assert fault.operator in parameters.RANGES or fault.in_every_dtype() in possible_faults, row.id


def test_a_reported_fault_is_killed_if_all_of_its_mutants_are() -> None:
    first, second = (row for row in reported_faults.load_reported_faults() if row.id in ("HF-001", "HF-002"))
    outcomes = [MutantResult(str(fault), Fate.KILLED.value) for fault in (*first.mutants, *second.mutants)]
    assert reported_faults.count_reported_faults(outcomes).killed == [first, second]
    assert reported_faults.count_reported_faults(
        [*outcomes, MutantResult(outcomes[0].mutant, Fate.NOT_COVERED.value)]
    ).not_killed == [first]
    assert len(reported_faults.count_reported_faults([]).not_expressible) == 112


def test_mutants_that_the_device_does_not_have_are_omitted() -> None:
    first = reported_faults.load_reported_faults()[0].mutants[0]
    assert reported_faults.mutants_of_reported_faults([str(first.in_every_dtype())]) == [first]
