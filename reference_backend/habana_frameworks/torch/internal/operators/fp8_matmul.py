"""Matrix products and convolutions of fp8 values, accumulated in float32."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from . import low_precision_rounding, quantization_scales
from .quantization_scales import Scale


def fp8_gemm_v2(
    A: torch.Tensor,
    trans_A: bool,
    B: torch.Tensor,
    trans_B: bool,
    D: torch.Tensor | None,
    out_dtype: torch.dtype,
    A_scale_inv: Scale = None,
    B_scale_inv: Scale = None,
    bias: torch.Tensor | None = None,
    accumulate: bool = False,
    B_scale_shape: Sequence[int] | None = None,
) -> torch.Tensor:
    """Return (A' B') * scale of A * scale of B + bias, plus D if ``accumulate``.

    A' is A, or A transposed if ``trans_A`` is True; B' is B, or B transposed if ``trans_B`` is True. Shapes
    are as for `torch.matmul`, including vectors and batches.

    Raises:
        RuntimeError: ``accumulate`` without D.
    """
    if accumulate and D is None:
        raise RuntimeError("fp8_gemm_v2 with accumulate needs D. Pass D, or omit accumulate.")
    product = torch.matmul(_transpose_if(A.float(), trans_A), _transpose_if(B.float(), trans_B))
    product = quantization_scales.multiply_by_scale(
        quantization_scales.multiply_by_scale(product, A_scale_inv), B_scale_inv, B_scale_shape
    )
    if bias is not None:
        product = product + bias.float()
    if accumulate and D is not None:
        product = product + D.float()
    return product.to(out_dtype)


def fp8_gemm(
    A: torch.Tensor,
    trans_A: bool,
    B: torch.Tensor,
    trans_B: bool,
    D: torch.Tensor,
    out_dtype: torch.dtype,
    A_scale_inv: torch.Tensor | None,
    B_scale_inv: torch.Tensor | None,
    bias: torch.Tensor | None,
    accumulate: bool,
    out: torch.Tensor,
) -> torch.Tensor:
    """Do the same as `fp8_gemm_v2`, and write the result to ``out``."""
    product = fp8_gemm_v2(A, trans_A, B, trans_B, D, out_dtype, A_scale_inv, B_scale_inv, bias, accumulate)
    return out.copy_(product)


def conv2d_fp8(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    out_dtype: torch.dtype | None = None,
    scale_input: Scale = None,
    scale_weight: Scale = None,
) -> torch.Tensor:
    """Return convolution * input scale * weight scale + bias.

    A scale is one number, or one number for each output channel. The default of ``out_dtype`` is bfloat16.
    """
    values = functional.conv2d(input.float(), weight.float(), None, stride, padding, dilation, groups)
    values = quantization_scales.multiply_by_scale(
        quantization_scales.multiply_by_scale(values, scale_input), scale_weight, dim=-3
    )
    if bias is not None:
        values = values + bias.float().reshape(-1, 1, 1)
    return values.to(torch.bfloat16 if out_dtype is None else out_dtype)


def sum_fp8(
    self: torch.Tensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Sum in float32. By default the result has the fp8 dtype of ``self``.

    An fp8 result is clamped to the range of the dtype in torch (448 for e4m3), also on GAUDI2.
    """
    total = torch.sum(self.float(), dim=tuple(dim) if dim else None, keepdim=keepdim)
    result = self.dtype if out_dtype is None else out_dtype
    if result in low_precision_rounding.FP8:
        limit = torch.finfo(result).max
        total = total.clamp(-limit, limit)
    return total.to(result)


def masked_batch_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    mask_a: torch.Tensor,
    mask_b: torch.Tensor,
    trans_a: bool,
    trans_b: bool,
) -> torch.Tensor:
    """Return a' b' + mask_a' mask_b' of batches; ' means transposed if ``trans_a`` or ``trans_b`` is True."""
    first = torch.matmul(_transpose_if(a, trans_a), _transpose_if(b, trans_b))
    return first + torch.matmul(_transpose_if(mask_a, trans_a), _transpose_if(mask_b, trans_b))


def _transpose_if(matrix: torch.Tensor, condition: bool) -> torch.Tensor:
    return matrix.transpose(-2, -1) if condition and matrix.dim() > 1 else matrix
