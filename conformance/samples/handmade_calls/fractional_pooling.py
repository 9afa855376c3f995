"""Calls of fractional pooling and of its backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.samples.handmade_calls.calls import Maker


def fractional_pooling(
    make: Maker, size: Sequence[int], pooled: Sequence[int], samples: torch.Tensor, *, into: bool
) -> list[list[Any]]:
    """Return a call with two channels of a size, pooled by windows of two that lie by ``samples``.

    With ``into`` it is that of the backward pass.
    """
    x, kernel = make.distinct(1, 2, *size), [2] * len(size)
    if not into:
        return [[x, kernel, pooled, samples]]
    forward = getattr(torch.ops.aten, f"fractional_max_pool{len(size)}d").default
    result, indices = forward(x, kernel, pooled, samples)
    return [[make.values(*result.shape), x, kernel, pooled, indices]]
