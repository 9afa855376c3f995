"""Compare elementwise functions and indexing with Python and numpy."""

from __future__ import annotations

import math
from collections.abc import Callable

import habana_frameworks.torch  # noqa: F401
import numpy
import pytest
import torch

from .reference import assert_close_to_reference
from .samples import normal, random_integers

hpu = torch.ops.hpu

INF, NAN = math.inf, math.nan


def root_or_nan(value: float) -> float:
    return NAN if value < 0 else math.sqrt(value)


def reciprocal_root(value: float) -> float:
    return INF if value == 0 else 0.0 if value == INF else 1 / root_or_nan(value)


def exp_or_inf(value: float) -> float:
    return INF if value > 709 else math.exp(value)


#: By operator: the Python function that gives the expected values, and special inputs.
FUNCTIONS: dict[str, tuple[Callable[[float], float], list[float]]] = {
    "exp_fast_math": (exp_or_inf, [0.0, -INF, INF, NAN, 1e4, 88.0, -87.0]),
    "sqrt_fast_math": (root_or_nan, [0.0, INF, NAN, -1.0, 1e-30, 1e30]),
    "rsqrt_fast_math": (reciprocal_root, [0.0, INF, NAN, -1.0, 1e-30, 1e30]),
}


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-6), (torch.bfloat16, 2**-7)])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions_that_hardware_approximates(name: str, dtype: torch.dtype, rtol: float) -> None:
    function, more = FUNCTIONS[name]
    typical = normal(200).cpu() * 5
    values = torch.cat((typical if name == "exp_fast_math" else typical.abs(), torch.tensor(more))).to(dtype)
    output = getattr(hpu, name)(values.to("hpu"))
    assert output.dtype == dtype
    expected = torch.tensor([function(value) for value in values.double().tolist()], dtype=torch.float64)
    torch.testing.assert_close(output.cpu().double(), expected, rtol=rtol, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "indices",
    [
        [[3, 0, -1]],
        [[0, 3, 3], [4, -5, 2]],
        [[[1], [2]], [[0, 4, 1]]],
        [[-4, 2], [0, 1], [1, -2]],
        [[[0, 1], [2, 3]]],
    ],
    ids=["rows", "two", "broadcast", "three", "matrix"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16], ids=str)
def test_plain_index_by_integers_is_a_copy(dtype: torch.dtype, indices: list[object]) -> None:
    x = random_integers(4, 5, 2, below=100, dtype=dtype)
    output = hpu.plain_index(x, [torch.tensor(index, device="hpu") for index in indices])
    expected = x.cpu().float().numpy()[tuple(numpy.array(index) for index in indices)]
    assert output.dtype == dtype and output.shape == expected.shape
    assert_close_to_reference(output, expected, 0, 0)
    x.zero_()
    assert_close_to_reference(output, expected, 0, 0)  # a copy, not a view


def test_plain_index_by_a_number_is_a_copy() -> None:
    x = normal(4, 3)
    expected = x.cpu()[2]
    output = hpu.plain_index(x, [torch.tensor(2, device="hpu")])
    x.zero_()
    assert_close_to_reference(output, expected, 0, 0)


def test_plain_index_by_a_mask_raises() -> None:
    with pytest.raises(RuntimeError, match="plain_index takes integer indices"):
        hpu.plain_index(normal(4, 3), [torch.tensor([True, False, True, True], device="hpu")])


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    ("indices", "shape"),
    [
        ([[-1, 2]], (2, 3)),
        ([[0, -4, 1]], (3,)),
        ([[-1, 3, 0, -2], [2, -1, 0, -3]], (4,)),
        ([[[-4], [3]], [[-1, 0]]], (2, 2)),
    ],
    ids=["rows", "broadcast", "elements", "grid"],
)
def test_index_put_accepts_negative_indices(
    indices: list[object], shape: tuple[int, ...], accumulate: bool
) -> None:
    x, value = normal(4, 3), normal(*shape, seed=2)
    if not accumulate and len(shape) == 1:
        value = (
            value[:1].expand(shape).contiguous()
        )  # an index repeats, so it is unspecified which value remains
    numpy_indices = tuple(numpy.array(index) for index in indices)
    expected, number = x.cpu().double().numpy().copy(), value.cpu().double().numpy()
    if accumulate:
        numpy.add.at(expected, numpy_indices, number)
    else:
        expected[numpy_indices] = number
    before = x.cpu().clone()
    output = hpu.index_put_normal_and_neg_indices(
        x, [torch.tensor(index, device="hpu") for index in indices], value, accumulate
    )
    assert_close_to_reference(output, expected)
    assert torch.equal(x.cpu(), before)
