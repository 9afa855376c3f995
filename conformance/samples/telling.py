"""Calls whose results depend on each argument more than those of the calls that operators make.

They stand before these calls: whoever holds a layout or an option in the first call that takes it sees there
what reading something else would give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.samples._pooling import fractional_pooling
from conformance.samples.built import Build, Built, Maker

aten = torch.ops.aten


def _fractional(dimensions: int, *, into: bool = False) -> Build:
    """Windows that lie elsewhere for other random numbers, which are so round that no dtype moves one.

    bfloat16 holds all values of the input, so that their indices are fixed.
    """

    def build(make: Maker) -> list[list[Any]]:
        size, pooled = ((13, 15), [5, 5]) if dimensions == 2 else ((7, 7, 5), [3, 3, 3])
        samples = (torch.arange(2 * dimensions) * 3 % 4 / 4).reshape(1, 2, dimensions).to(make.dtype)
        return fractional_pooling(make, size, pooled, samples, into=into)

    return build


def _half_of_them(limit: float) -> Build:
    """Values of which about half lie within the limit."""
    return lambda make: [[make.values(4, 6), make.values(4, 6, low=-2 * limit, high=2 * limit), limit]]


def _distances(make: Maker) -> list[list[Any]]:
    return [[make.values(3, 4, 5), make.values(3, 6, 5), 2.0, 2]]


def _distances_into(make: Maker) -> list[list[Any]]:
    x, y = make.values(3, 4, 5), make.values(3, 6, 5)
    return [[make.values(3, 4, 6), x, y, 2.0, aten._cdist_forward.default(x, y, 2.0, None)]]


def _found_and_not(make: Maker) -> list[list[Any]]:
    """Each row of the second tensor finds other elements, and what layouts leave around a tensor finds some.

    The first tensor has 3, 96 and -96 among its elements, the second one does not.
    """
    elements = torch.cat([torch.arange(21), torch.tensor([96, -96, 3])]).to(make.dtype).reshape(4, 6)
    rows, row = [[1, 5, 7, 11], [2, 4, 8, 13], [0, 6, 9, 17]], [5, 7, 11, 13, 17]
    return [[elements, torch.tensor(found).to(make.dtype)] for found in (row, rows)]


def _matrix(make: Maker) -> list[list[Any]]:
    return [[make.distinct(5, 6)]]


def _into_a_part(make: Maker) -> list[list[Any]]:
    x = make.distinct(5, 6)
    return [[x, make.values(2, 6), 0, 1, 3, 1], [x, make.values(5, 3), 1, 0, 6, 2]]


def _scattered(make: Maker) -> list[list[Any]]:
    """Places of which each row names others, so that no two are the same."""
    x, places = make.values(5, 6), torch.tensor([[0, 3, 1, 5], [2, 4, 0, 1], [5, 1, 3, 2]])
    return [[x, 1, places, 2, {"reduce": "multiply"}], [x, 1, places, 2, {"reduce": "add"}]]


def _as_many(make: Maker) -> list[list[Any]]:
    """Repetitions that come to the same number in another order."""
    some, others = (torch.tensor(times).to(make.dtype) for times in ([2, 0, 3, 1], [1, 3, 0, 2]))
    return [[some, {"output_size": 6}], [others]]


def _searched(make: Maker) -> list[list[Any]]:
    """A number that is found between others, and one that is one of them, of which both sides differ."""
    row = torch.arange(0, 40, 2).to(make.dtype)
    return [[row, 17, {"out_int32": True}], [row, 8, {"right": True}], [row, 8, {"side": "right"}], [row, 8]]


#: The calls, by the overload's name.
TELLING: Mapping[str, Built] = {
    "fractional_max_pool2d": Built("nn.functional.fractional_max_pool2d", _fractional(2)),
    "fractional_max_pool2d_backward": Built("nn.functional.fractional_max_pool2d", _fractional(2, into=True)),
    "fractional_max_pool3d": Built("nn.functional.fractional_max_pool3d", _fractional(3)),
    "fractional_max_pool3d_backward": Built("nn.functional.fractional_max_pool3d", _fractional(3, into=True)),
    "hardshrink_backward": Built("nn.functional.hardshrink", _half_of_them(0.5)),
    "softshrink_backward": Built("nn.functional.softshrink", _half_of_them(0.5)),
    "_cdist_forward": Built("cdist", _distances),
    "_cdist_backward": Built("cdist", _distances_into),
    "isin.Tensor_Tensor": Built("isin", _found_and_not),
    "alias": Built("alias_copy", _matrix),
    "alias_copy": Built("alias_copy", _matrix),
    "lift_fresh": Built("clone", _matrix),
    "t_copy": Built("t_copy", _matrix),
    "slice_scatter": Built("slice_scatter", _into_a_part),
    "scatter.value_reduce": Built("scatter", _scattered),
    "repeat_interleave.Tensor": Built("repeat_interleave", _as_many),
    "searchsorted.Scalar": Built("searchsorted", _searched),
}
