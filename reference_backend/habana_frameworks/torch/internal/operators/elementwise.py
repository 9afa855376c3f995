"""Functions of single elements, and the choice of elements, that hardware has kernels of its own for."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import low_precision_rounding, seeded_random


def plain_index(self: torch.Tensor, indices: Sequence[torch.Tensor]) -> torch.Tensor:
    """Index by integers, one tensor for each leading dimension.

    Raises:
        RuntimeError: an index is bool, whose result has a size that depends on its values.
    """
    if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
        raise RuntimeError("plain_index takes integers: use masked_select, or nonzero first, for a mask")
    return torch.ops.aten.index.Tensor(self, list(indices))  # a copy also of what one number chooses


def index_put_normal_and_neg_indices(
    self: torch.Tensor, indices: Sequence[torch.Tensor], value: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    """`torch.Tensor.index_put`; indices below 0 count from the end."""
    return self.index_put(tuple(indices), value, accumulate)


def exp_fast_math(self: torch.Tensor) -> torch.Tensor:
    """Exponential function; hardware approximates it."""
    return torch.exp(self)


def sqrt_fast_math(self: torch.Tensor) -> torch.Tensor:
    """Square root; hardware approximates it."""
    return torch.sqrt(self)


def rsqrt_fast_math(self: torch.Tensor) -> torch.Tensor:
    """1 / square root; hardware approximates it."""
    return torch.rsqrt(self)


def habana_cast_sr_mode(
    input: torch.Tensor, type: int, stochastic_rounding: bool, seed: int = 0
) -> torch.Tensor:
    """Convert to a dtype, by its number in torch; at random with ``stochastic_rounding``, from a seed.

    Raises:
        RuntimeError: rounding at random to a dtype that is not bfloat16, float16 or fp8.
    """
    dtype = low_precision_rounding.numbered(type)
    if not stochastic_rounding:
        return (
            low_precision_rounding.to_fp8(input.float(), dtype)
            if dtype in low_precision_rounding.FP8
            else input.to(dtype)
        )
    start = torch.full((1,), seed, dtype=torch.int64, device=input.device)
    drawn = seeded_random.uniform(start, input.shape)
    return low_precision_rounding.rounded_at_random(input.float(), dtype, drawn)


def cast(self: torch.Tensor, type: int) -> torch.Tensor:
    """Convert to a dtype, by its number in torch; to fp8 as `casts.cast_to_fp8_v2` does."""
    return habana_cast_sr_mode(self, type, False)
