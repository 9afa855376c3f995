"""Elementwise functions and indexing operators for which hardware has its own kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import low_precision_rounding, seeded_random


def plain_index(self: torch.Tensor, indices: Sequence[torch.Tensor]) -> torch.Tensor:
    """Index by integers, with one tensor for each leading dimension.

    Raises:
        RuntimeError: an index is a mask, whose result size would depend on its values.
    """
    if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
        raise RuntimeError(
            "plain_index takes integer indices. For a mask use masked_select, or nonzero first."
        )
    # aten.index returns a copy even if the index is a single number. Indexing with [] might return a view.
    selected: torch.Tensor = torch.ops.aten.index.Tensor(self, list(indices))
    return selected


def index_put_normal_and_neg_indices(
    self: torch.Tensor, indices: Sequence[torch.Tensor], value: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    """Call `torch.Tensor.index_put`. Negative indices count from the end."""
    return self.index_put(tuple(indices), value, accumulate)


def exp_fast_math(self: torch.Tensor) -> torch.Tensor:
    """Return the exponential function, which hardware approximates and this device computes exactly."""
    return torch.exp(self)


def sqrt_fast_math(self: torch.Tensor) -> torch.Tensor:
    """Return the square root, which hardware approximates and this device computes exactly."""
    return torch.sqrt(self)


def rsqrt_fast_math(self: torch.Tensor) -> torch.Tensor:
    """Return 1 / square root, which hardware approximates and this device computes exactly."""
    return torch.rsqrt(self)


def habana_cast_sr_mode(
    input: torch.Tensor, type: int, stochastic_rounding: bool, seed: int = 0
) -> torch.Tensor:
    """Convert to the dtype with number ``type`` in torch. ``seed`` determines stochastic rounding.

    Raises:
        RuntimeError: stochastic rounding to a dtype that is not bfloat16, float16 or fp8.
    """
    dtype = low_precision_rounding.dtype_from_scalar_type_number(type)
    if not stochastic_rounding:
        return (
            low_precision_rounding.to_fp8(input.float(), dtype)
            if dtype in low_precision_rounding.FP8
            else input.to(dtype)
        )
    start = torch.full((1,), seed, dtype=torch.int64, device=input.device)
    drawn = seeded_random.uniform(start, input.shape)
    return low_precision_rounding.round_stochastically(input.float(), dtype, drawn)


def cast(self: torch.Tensor, type: int) -> torch.Tensor:
    """Convert to the dtype with number ``type`` in torch. fp8 is rounded as in `casts.cast_to_fp8_v2`."""
    return habana_cast_sr_mode(self, type, False)
