"""Handmade calls of fractional pooling and its backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.samples.handmade_calls.calls import TensorMaker


def fractional_pooling_calls(
    make: TensorMaker, size: Sequence[int], pooled: Sequence[int], samples: torch.Tensor, *, backward: bool
) -> list[list[Any]]:
    """Return a call with two channels of ``size``, pooled to ``pooled`` with windows of two, positioned by
    ``samples``.

    With ``backward``, return the backward call.
    """
    x, kernel = make.distinct(1, 2, *size), [2] * len(size)
    if not backward:
        return [[x, kernel, pooled, samples]]
    forward = getattr(torch.ops.aten, f"fractional_max_pool{len(size)}d").default
    result, indices = forward(x, kernel, pooled, samples)
    return [[make.values(*result.shape), x, kernel, pooled, indices]]
