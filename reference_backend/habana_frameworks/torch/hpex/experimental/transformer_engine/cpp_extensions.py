"""Casts to and from fp8 with the scales that an fp8 module stores for its tensors."""

from __future__ import annotations

import torch

from .utils import FP8TensorMeta


def cast_to_fp8(
    inp: torch.Tensor,
    fp8_meta_tensor: FP8TensorMeta,
    fp8_tensor: int,
    otype: torch.dtype,
    stochastic_rounding: bool = False,
    measure_amax: bool = True,
) -> torch.Tensor:
    """Round ``inp`` to fp8 with the scale number ``fp8_tensor`` of a module.

    If ``measure_amax`` is True, the largest magnitude of ``inp`` is recorded in the current step's history.
    """
    value = inp if inp.dtype in (torch.float32, torch.bfloat16) else inp.float()
    values, amax = torch.ops.hpu.cast_to_fp8_v2(
        value, fp8_meta_tensor.scale[fp8_tensor], stochastic_rounding, measure_amax, otype
    )
    if measure_amax:
        largest = fp8_meta_tensor.amax_history[0, fp8_tensor]
        largest.copy_(torch.maximum(largest, amax))
    result: torch.Tensor = values
    return result


def cast_from_fp8(
    inp: torch.Tensor, fp8_meta_tensor: FP8TensorMeta, fp8_tensor: int, otype: torch.dtype
) -> torch.Tensor:
    """Convert fp8 values to ``otype`` with the scale number ``fp8_tensor`` of a module."""
    values: torch.Tensor = torch.ops.hpu.cast_from_fp8(inp, fp8_meta_tensor.scale_inv[fp8_tensor], otype)
    return values
