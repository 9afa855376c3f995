"""``framework.compare`` compares infinities, NaN, signed zeros, and values beyond the range of the dtype."""

import pytest
import torch

from conformance.framework.compare import compare_values, same_bits
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import Tolerance
from conformance.model.verdicts import ResultId

INF, NAN = float("inf"), float("nan")
LARGEST = torch.finfo(torch.float32).max


def values_agree(actual: torch.Tensor, expected: torch.Tensor, **options: bool) -> bool:
    recorder = Recorder(ResultId.parse("value/add@float32"), seed=0)
    return compare_values(recorder, actual, expected, tolerance=Tolerance(1e-6, 1e-45), **options)


@pytest.mark.parametrize("wrong", [LARGEST, -INF, NAN, 0.0])
def test_only_infinity_equals_infinity(wrong: float) -> None:
    assert not values_agree(torch.tensor([1.0, wrong]), torch.tensor([1.0, INF], dtype=torch.float64))
    assert values_agree(torch.tensor([1.0, INF]), torch.tensor([1.0, INF], dtype=torch.float64))


def test_a_value_beyond_the_range_may_be_infinity_or_the_largest_number() -> None:
    expected = torch.tensor([1e39], dtype=torch.float64)
    assert values_agree(torch.tensor([INF]), expected)
    assert values_agree(torch.tensor([LARGEST]), expected)
    assert not values_agree(torch.tensor([-INF]), expected)


def test_signs_of_zeros_are_compared_only_on_request() -> None:
    assert values_agree(torch.tensor([-0.0]), torch.tensor([0.0]))
    assert not values_agree(torch.tensor([-0.0]), torch.tensor([0.0]), signed_zeros=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.complex32])
def test_equal_bits_include_nan(dtype: torch.dtype) -> None:
    tensor = torch.tensor([1.0, NAN], dtype=dtype)
    assert same_bits(tensor, tensor.clone())
    assert not same_bits(tensor, torch.tensor([1.0, 2.0], dtype=dtype))


def test_same_bits_distinguishes_signed_zeros_only_on_request() -> None:
    assert same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]), zeros=True)
    assert same_bits(torch.tensor([3]), torch.tensor([3]), zeros=True)
