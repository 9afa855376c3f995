"""Softmax with scales, masks and limits, computed in float32 and rounded once."""

from __future__ import annotations

import torch

from . import low_precision_rounding, quantization_scales
from .low_precision_rounding import to_compute_dtype
from .quantization_scales import Scale


def softmax_fp8(
    input: torch.Tensor,
    dim: int,
    input_scale: Scale = None,
    output_scale: Scale = None,
    inv_attn_heads: Scale = None,
    fused_add: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the softmax of input * inv_attn_heads * input_scale + fused_add over the last dimension.

    If ``output_scale`` is passed, the result is multiplied by ``output_scale`` and rounded to float8_e4m3fn.
    Otherwise, the result is bfloat16.

    Raises:
        RuntimeError: ``dim`` is not the last dimension.
    """
    if dim % max(1, input.dim()) != input.dim() - 1:
        raise RuntimeError(
            f"softmax_fp8 supports only the last of {input.dim()} dimensions, but dim is {dim}"
        )
    values = quantization_scales.multiply_by_scale(
        quantization_scales.multiply_by_scale(input.float(), inv_attn_heads), input_scale
    )
    if fused_add is not None:
        values = values + fused_add.float()
    result = torch.softmax(values, -1)
    if output_scale is None:
        return result.to(torch.bfloat16)
    return low_precision_rounding.to_fp8(
        quantization_scales.multiply_by_scale(result, output_scale), low_precision_rounding.E4M3
    )


def scaled_masked_softmax(input: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    """Return the softmax of input * scale + mask over the last dimension."""
    return torch.softmax(to_compute_dtype(input) * scale + to_compute_dtype(mask), -1).to(input.dtype)


def scaled_triangular_softmax(
    self: torch.Tensor,
    inv_scale_attn: float,
    exp_sum_recpr: torch.Tensor | None = None,
    max: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the softmax of self * inv_scale_attn over columns up to the row index, and 0 in later columns.

    ``exp_sum_recpr`` and ``max`` are results of `scaled_triangular_softmax_retain` for the same input.
    """
    values = _apply_causal_mask(to_compute_dtype(self) * inv_scale_attn)
    if exp_sum_recpr is None or max is None:
        return torch.softmax(values, -1).to(self.dtype)
    return (torch.exp(values - to_compute_dtype(max)) * to_compute_dtype(exp_sum_recpr)).to(self.dtype)


def scaled_triangular_softmax_retain(
    self: torch.Tensor, inv_scale_attn: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return `scaled_triangular_softmax`, and for each row 1 / sum of exponentials, and the maximum.

    The tensor of reciprocal sums and the tensor of maxima have one column.
    """
    values = _apply_causal_mask(to_compute_dtype(self) * inv_scale_attn)
    most = values.amax(-1, keepdim=True)
    exponentials = torch.exp(values - most)
    reciprocal = exponentials.sum(-1, keepdim=True).reciprocal()
    return (exponentials * reciprocal).to(self.dtype), reciprocal, most


def scaled_masked_triangular_softmax(
    self: torch.Tensor,
    start_end: torch.Tensor,
    inv_scale_attn: float,
    grouped_batch_size: int,
    use_max: bool,
    mode: int,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Return the causal softmax of self * inv_scale_attn in columns from start to below end, and 0 elsewhere.

    Args:
        self: [batch, ..., rows, columns]. A single row is the newest token, for which
            the causal mask does not apply.
        start_end: integers [batch / grouped_batch_size, 2], or the same integers in one dimension.
        inv_scale_attn: factor before the softmax.
        grouped_batch_size: number of consecutive batch elements with the same start and end.
        use_max: on hardware, True subtracts the maximum first. On this device the result is the same.
        mode: 0, 1 or 15, a lookup table of the hardware. On this device the result is the same.
        out_dtype: dtype of the result, which may be fp8; None for the dtype of ``self``.

    Raises:
        RuntimeError: the mode is unknown, or the groups do not cover the batch.
    """
    if mode not in (0, 1, 15) or (mode == 1 and self.dtype != torch.bfloat16):
        raise RuntimeError(
            "scaled_masked_triangular_softmax supports the modes 0, 15 and, for bfloat16, 1, but mode is "
            f"{mode} for {self.dtype}"
        )
    start_end = start_end.reshape(-1, 2)
    bounds = start_end.repeat_interleave(grouped_batch_size, 0)
    if bounds.size(0) != self.size(0):
        raise RuntimeError(
            f"start_end has {start_end.size(0)} rows for groups of {grouped_batch_size} batch elements, but "
            f"the batch has {self.size(0)} elements"
        )
    column = torch.arange(self.size(-1), device=self.device)
    row = torch.arange(self.size(-2), device=self.device).unsqueeze(-1)
    shape = [-1] + [1] * (self.dim() - 1)
    start, end = bounds[:, 0].reshape(shape), bounds[:, 1].reshape(shape)
    open_ = (column >= start) & (column < end)
    if self.size(-2) > 1:
        open_ = open_ & (column <= row)
    values = _masked_softmax(to_compute_dtype(self) * inv_scale_attn, open_)
    result = self.dtype if out_dtype is None else out_dtype
    return (
        low_precision_rounding.to_fp8(values, result)
        if result in low_precision_rounding.FP8
        else values.to(result)
    )


def custom_softmax(input: torch.Tensor, flavor: int) -> torch.Tensor:
    """Return the bfloat16 softmax over the last dimension. On hardware, it is less exact.

    Raises:
        RuntimeError: the flavor is not 0 or 1, or the dtype is not bfloat16.
    """
    if flavor not in (0, 1) or input.dtype != torch.bfloat16:
        raise RuntimeError(
            f"custom_softmax supports the flavors 0 and 1 for bfloat16, but flavor is {flavor} for "
            f"{input.dtype}"
        )
    return torch.softmax(input.float(), -1).to(input.dtype)


def ragged_softmax(
    self: torch.Tensor, dim: int, half_to_float: bool, valid_count: torch.Tensor
) -> torch.Tensor:
    """Return the softmax over the first ``valid_count`` elements of a dimension, and 0 elsewhere.

    ``valid_count`` has one number for each batch element. With ``half_to_float``, the result for float16 and
    bfloat16 is float32.
    """
    dimension = dim % self.dim()
    position = torch.arange(self.size(dimension), device=self.device)
    position = position.reshape([-1 if d == dimension else 1 for d in range(self.dim())])
    count = valid_count.reshape([-1] + [1] * (self.dim() - 1)) if valid_count.dim() == 1 else valid_count
    result = _masked_softmax(to_compute_dtype(self), position < count, dimension)
    return result if half_to_float else result.to(self.dtype)


def _apply_causal_mask(values: torch.Tensor) -> torch.Tensor:
    column = torch.arange(values.size(-1), device=values.device)
    row = torch.arange(values.size(-2), device=values.device).unsqueeze(-1)
    return values.masked_fill(column > row, float("-inf"))


def _masked_softmax(values: torch.Tensor, open_: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return the softmax over the positions that the mask ``open_`` selects, and 0 at other positions."""
    result = torch.softmax(values.masked_fill(~open_, torch.finfo(values.dtype).min), dim)
    return torch.where(open_, result, torch.zeros_like(result))
