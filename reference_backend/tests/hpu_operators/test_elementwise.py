"""Functions of elements and the choice of elements, by Python's and numpy's numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import habana_frameworks.torch  # noqa: F401
import numpy
import pytest
import torch

from .reference import close
from .samples import normal, whole

hpu = torch.ops.hpu

INF, NAN = math.inf, math.nan


def root(value: float) -> float:
    return NAN if value < 0 else math.sqrt(value)


def reciprocal_root(value: float) -> float:
    return INF if value == 0 else 0.0 if value == INF else 1 / root(value)


def exponential(value: float) -> float:
    return INF if value > 709 else math.exp(value)


#: Function of Python by the operator's name, and numbers beside the usual ones.
FUNCTIONS: dict[str, tuple[Callable[[float], float], list[float]]] = {
    "exp_fast_math": (exponential, [0.0, -INF, INF, NAN, 1e4, 88.0, -87.0]),
    "sqrt_fast_math": (root, [0.0, INF, NAN, -1.0, 1e-30, 1e30]),
    "rsqrt_fast_math": (reciprocal_root, [0.0, INF, NAN, -1.0, 1e-30, 1e30]),
}


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-6), (torch.bfloat16, 2**-7)])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions_that_hardware_approximates(name: str, dtype: torch.dtype, rtol: float) -> None:
    function, more = FUNCTIONS[name]
    usual = normal(200).cpu() * 5
    values = torch.cat((usual if name == "exp_fast_math" else usual.abs(), torch.tensor(more))).to(dtype)
    found = getattr(hpu, name)(values.to("hpu"))
    assert found.dtype == dtype
    due = torch.tensor([function(value) for value in values.double().tolist()], dtype=torch.float64)
    torch.testing.assert_close(found.cpu().double(), due, rtol=rtol, atol=0, equal_nan=True)


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
def test_choice_by_integers(dtype: torch.dtype, indices: list[object]) -> None:
    x = whole(4, 5, 2, below=100, dtype=dtype)
    found = hpu.plain_index(x, [torch.tensor(one, device="hpu") for one in indices])
    due = x.cpu().float().numpy()[tuple(numpy.array(one) for one in indices)]
    assert found.dtype == dtype and found.shape == due.shape
    close(found, due, 0, 0)
    x.zero_()
    close(found, due, 0, 0)  # a copy, not a view


def test_choice_by_a_number_is_a_copy() -> None:
    x = normal(4, 3)
    due = x.cpu()[2]
    found = hpu.plain_index(x, [torch.tensor(2, device="hpu")])
    x.zero_()
    close(found, due, 0, 0)


def test_choice_by_a_mask_is_refused() -> None:
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
def test_writes_at_indices_from_both_ends(
    indices: list[object], shape: tuple[int, ...], accumulate: bool
) -> None:
    x, value = normal(4, 3), normal(*shape, seed=2)
    if not accumulate and len(shape) == 1:
        value = (
            value[:1].expand(shape).contiguous()
        )  # elements are named twice, and which value stays is open
    places = tuple(numpy.array(one) for one in indices)
    due, number = x.cpu().double().numpy().copy(), value.cpu().double().numpy()
    if accumulate:
        numpy.add.at(due, places, number)
    else:
        due[places] = number
    before = x.cpu().clone()
    found = hpu.index_put_normal_and_neg_indices(
        x, [torch.tensor(one, device="hpu") for one in indices], value, accumulate
    )
    close(found, due)
    assert torch.equal(x.cpu(), before)
