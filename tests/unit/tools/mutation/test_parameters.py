"""``tools.mutation.parameters`` draws the parameters of mutants by a hash of the mutation point, operator and
position.
"""

from collections import Counter

import pytest

from tools.mutation import parameters
from tools.mutation.parameters import RANGES, ParameterRange, draw_parameters


@pytest.mark.parametrize("operator", RANGES)
def test_every_parameter_is_in_its_range(operator: str) -> None:
    for number in range(300):
        values = draw_parameters(f"aten::op{number}", operator, number % 3)
        assert 1 <= len(values) <= len(RANGES[operator])
        for value in values:
            assert any(r.low <= value <= r.high for r in RANGES[operator])


def test_equal_places_have_equal_parameters_and_others_do_not() -> None:
    first = draw_parameters("aten::add.Tensor", "above-size", 0)
    assert first == draw_parameters("aten::add.Tensor", "above-size", 0)
    assert len({draw_parameters(f"aten::op{i}", "above-size", 0) for i in range(50)}) == 50


def test_both_ends_of_a_range_are_drawn() -> None:
    for value_range in (ParameterRange(3, 8, logarithmic=False), ParameterRange(4, 64, powers=True)):
        values = {value_range.value_at(i / 1000) for i in range(1000)}
        assert {value_range.low, value_range.high} <= values
    assert ParameterRange(4, 64, powers=True).value_at(0.5) == 16


def test_each_octave_of_a_logarithmic_range_is_equally_likely() -> None:
    value_range = ParameterRange(32, 32 * 2**12 - 1)
    octaves = Counter(value_range.value_at(i / 12000).bit_length() for i in range(12000))
    assert len(octaves) == 12 and max(octaves.values()) - min(octaves.values()) < 50


def test_no_parameter_depends_on_the_python_process() -> None:
    assert draw_parameters("aten::mm", "long-sum", 0) == parameters.draw_parameters("aten::mm", "long-sum", 0)
    assert draw_parameters("aten::add.Tensor", "rank", 0) == EXPECTED_RANKS


#: The tensor ranks that ``draw_parameters`` must choose in every Python process, whatever its hash seed.
EXPECTED_RANKS = (3, 5, 7)
