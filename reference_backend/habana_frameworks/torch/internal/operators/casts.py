"""Conversions to and from fp8, and from packed 4-bit numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from . import low_precision_rounding, quantization_scales
from .low_precision_rounding import E4M3, E5M2
from .quantization_scales import Scale

#: Number of 4-bit values in a 32-bit word.
NIBBLES = 8


def cast_to_fp8_v2(
    input: torch.Tensor,
    scale: Scale = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
    dtype: torch.dtype | None = None,
    scale_shape: Sequence[int] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiply by a scale, in the dtype of the input, and round to an fp8 dtype.

    Products outside the range of the fp8 dtype are clamped to the range.

    Returns:
        the values, and the largest magnitude of ``input`` as a float32 number. If ``is_amax`` is False, an
        empty tensor replaces the number.

    Raises:
        RuntimeError: ``dtype`` is not an fp8 dtype; the input is not float32, bfloat16 or fp8; or the input
            is fp8 and an amax or a different fp8 dtype is requested.
    """
    if dtype not in low_precision_rounding.FP8:
        raise RuntimeError(f"cast_to_fp8_v2 rounds to an fp8 dtype, but dtype is {dtype}. Use {_CHOICES}.")
    if input.dtype in low_precision_rounding.FP8:
        if is_amax:
            raise RuntimeError("CastToFp8V2 must have no amax for float8.")
        if input.dtype != dtype:
            raise RuntimeError(
                "CastToFp8V2 input and output must have the same dtype for float8, "
                f"but are {_scalar_type_name(input.dtype)} and {_scalar_type_name(dtype)}"
            )
    elif input.dtype not in (torch.float32, torch.bfloat16):
        raise RuntimeError(
            f"cast_to_fp8_v2 takes float32, bfloat16 or fp8, but the input is {input.dtype}. Convert it "
            "first."
        )
    # Hardware multiplies in the dtype of the input.
    scaled = quantization_scales.multiply_by_scale(input, scale, scale_shape).float()
    return low_precision_rounding.to_fp8(scaled, dtype, stochastic_rounding), _amax_or_empty(input, is_amax)


def cast_to_fp8(
    input: torch.Tensor,
    scale: torch.Tensor | None,
    stochastic_rounding: bool,
    out: torch.Tensor,
    amax: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do the same as `cast_to_fp8_v2`, but write the results to ``out`` and ``amax``."""
    values, largest = cast_to_fp8_v2(input, scale, stochastic_rounding, amax.numel() > 0, out.dtype)
    out.copy_(values)
    if amax.numel():
        amax.copy_(largest.reshape(amax.shape))
    return out, amax


def cast_to_fp8_hybrid(
    input: torch.Tensor,
    scale_152: torch.Tensor | None = None,
    scale_143: torch.Tensor | None = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Convert to both fp8 formats (e5m2 and e4m3), and return the largest magnitude.

    Only e5m2, the format of gradients, is rounded stochastically.
    """
    wide, amax = cast_to_fp8_v2(input, scale_152, stochastic_rounding, is_amax, E5M2)
    narrow, _ = cast_to_fp8_v2(input, scale_143, False, False, E4M3)
    return wide, narrow, amax


def cast_from_fp8(
    input: torch.Tensor,
    scale: Scale,
    out_dtype: torch.dtype,
    scale_shape: Sequence[int] | None = None,
) -> torch.Tensor:
    """Convert fp8 values to ``out_dtype``, exactly, and multiply by the scale in this dtype."""
    return quantization_scales.multiply_by_scale(input.to(out_dtype), scale, scale_shape)


def convert_from_int4(
    input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None, out_dtype: torch.dtype
) -> torch.Tensor:
    """Return (values - zero point) * scale of signed 4-bit values; see `convert_from_uint4`."""
    return _dequantize_nibbles(input, scale, zero_point, out_dtype, signed=True)


def convert_from_uint4(
    input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None, out_dtype: torch.dtype
) -> torch.Tensor:
    """Return (values - zero point) * scale of 4-bit values, eight per int32, lowest bits first.

    Args:
        input: int32[..., N / 8].
        scale: broadcasts with [..., N], or has one row for each group of consecutive rows.
        zero_point: as ``scale``, or packed as ``input``; None for zero.
        out_dtype: dtype of the result.

    Returns:
        [..., N].
    """
    return _dequantize_nibbles(input, scale, zero_point, out_dtype, signed=False)


def dequantize_nf4(
    input: torch.Tensor,
    absmax: torch.Tensor,
    blocksize: int,
    out_shape: Sequence[int],
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """Return values of 4-bit NormalFloat times the absolute maximum of their block (arXiv 2305.14314).

    Args:
        input: uint8[N / 2]; the upper bits contain the first of two values.
        absmax: one value for each block of ``blocksize`` elements.
        blocksize: number of elements of a block.
        out_shape: shape of the result, with N elements or N - 1.
        out_dtype: dtype of the result.

    Raises:
        RuntimeError: the input is not uint8 or is too short, or ``absmax`` has too few values.
    """
    if input.dtype != torch.uint8:
        raise RuntimeError(f"dequantize_nf4 takes packed values as uint8, but the input is {input.dtype}")
    count = math.prod(out_shape)
    torch._check(2 * input.numel() >= count, lambda: "dequantize_nf4: the input has too few values")
    torch._check(absmax.numel() * blocksize >= count, lambda: "dequantize_nf4: absmax has too few blocks")
    pairs = torch.stack((input.reshape(-1) >> 4, input.reshape(-1) & 15), -1)
    indices = pairs.reshape(-1)[:count].int()
    values = torch.tensor(low_precision_rounding.NORMAL_FLOAT, dtype=torch.float32, device=input.device)[
        indices
    ]
    largest = absmax.reshape(-1).float().repeat_interleave(blocksize)[:count]
    return (values * largest).to(out_dtype).reshape(out_shape)


def fake_quant_fp4(input: torch.Tensor, stochastic_rounding: bool, axis: int, dtype: str) -> torch.Tensor:
    """Round to 4-bit floats and back: e2m1 values, and a power of two as the scale of 32 values (OCP MX).

    Raises:
        RuntimeError: the format is not "mxfp4", "fp4" or "fp4_e2m1", or the size of the axis is not a
            multiple of 32.
    """
    if dtype.lower() not in ("mxfp4", "fp4", "fp4_e2m1"):
        raise RuntimeError(f"fake_quant_fp4 supports the format 'mxfp4', but dtype is {dtype!r}")
    block = low_precision_rounding.MX_BLOCK
    if input.size(axis) % block:
        raise RuntimeError(
            f"fake_quant_fp4 needs an axis size that is a multiple of {block}, but axis {axis} has "
            f"{input.size(axis)}"
        )
    moved = input.float().movedim(axis, -1)
    blocks = moved.unflatten(-1, (moved.size(-1) // block, block))
    unit = low_precision_rounding.mx_block_scale(blocks.abs().amax(-1, keepdim=True))
    values = low_precision_rounding.to_e2m1(blocks / unit, stochastic_rounding) * unit
    return values.flatten(-2).movedim(-1, axis).to(input.dtype)


_CHOICES = "torch.float8_e4m3fn or torch.float8_e5m2"


def _scalar_type_name(dtype: torch.dtype) -> str:
    """Return torch's C++ name of a dtype, as in the messages of the Intel Gaudi bridge."""
    return str(dtype).removeprefix("torch.").capitalize()


def _amax_or_empty(input: torch.Tensor, is_requested: bool) -> torch.Tensor:
    if not is_requested:
        return torch.empty(0, dtype=torch.float32, device=input.device)
    if input.numel() == 0:
        return torch.zeros((), dtype=torch.float32, device=input.device)
    return input.detach().float().abs().amax()


def _dequantize_nibbles(
    input: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    out_dtype: torch.dtype,
    *,
    signed: bool,
) -> torch.Tensor:
    values = _unpack_nibbles(input, signed).float()
    if zero_point is not None:
        zero = _unpack_nibbles(zero_point, signed) if zero_point.dtype == torch.int32 else zero_point
        values = values - _repeat_group_rows(zero.float(), values)
    return (values * _repeat_group_rows(scale.float(), values)).to(out_dtype)


def _unpack_nibbles(packed: torch.Tensor, signed: bool) -> torch.Tensor:
    if packed.dtype != torch.int32:
        raise RuntimeError(f"4-bit values must be packed in int32, but the input is {packed.dtype}")
    shifts = torch.arange(0, 4 * NIBBLES, 4, dtype=torch.int32, device=packed.device)
    nibbles = (packed.unsqueeze(-1) >> shifts) & 15
    if signed:
        nibbles = nibbles - 16 * (nibbles >= 8)
    return nibbles.flatten(-2)


def _repeat_group_rows(group: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Repeat the rows of ``group`` so that each row of ``values`` has a row. Rows that broadcast are kept."""
    if group.dim() == values.dim() > 1 and group.size(-2) not in (1, values.size(-2)):
        rows, groups = values.size(-2), group.size(-2)
        if groups == 0 or rows % groups:
            raise RuntimeError(
                f"{rows} rows are not divisible into {groups} groups. Pass one scale for each group."
            )
        return group.repeat_interleave(rows // groups, dim=-2)
    return group
