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
    return [[make.distinct(4, 6), make.distinct(3, 4)]]


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
}
