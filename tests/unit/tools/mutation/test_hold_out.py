"""``tools.mutation.hold_out`` holds out half of the mutation operators and of the parameters."""

from tools.mutation import hold_out, injectors, parameters
from tools.mutation.mutant import Mutant


def test_about_half_of_the_operators_and_parameters_are_held_out() -> None:
    operators = [hold_out.is_operator_held_out(name) for name in injectors.MUTATION_OPERATORS]
    assert 0.4 < sum(operators) / len(operators) < 0.6
    drawn = [
        Mutant(f"aten::op{i}", "above-size", 0, value)
        for i in range(200)
        for value in parameters.draw_parameters(f"aten::op{i}", "above-size", 0)
    ]
    assert 0.4 < sum(map(hold_out.has_held_out_parameter, drawn)) / len(drawn) < 0.6


def test_a_mutant_without_a_drawn_parameter_has_no_held_out_parameter() -> None:
    mutants = [Mutant("aten::add.Tensor", "option-ignored", 2, value) for value in range(50)]
    assert not any(map(hold_out.has_held_out_parameter, mutants))


def test_a_mutant_is_held_out_with_its_operator_or_its_parameter() -> None:
    for operator in ("above-size", "leak", "rank"):
        for value in range(20):
            mutant = Mutant("aten::add.Tensor", operator, 0, value)
            parts = (hold_out.is_operator_held_out(operator), hold_out.has_held_out_parameter(mutant))
            assert hold_out.is_held_out(mutant) is any(parts)
