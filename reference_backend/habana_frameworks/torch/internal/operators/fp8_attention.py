"""Attention of fp8 values. Scales convert q, k and v from fp8. Other scales convert the attention weights and
the result to fp8.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from . import attention, low_precision_rounding, quantization_scales, seeded_random
from .attention import AttentionMasks
from .quantization_scales import Scale

_Six = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class _Attention(NamedTuple):
    out: torch.Tensor
    matrix: torch.Tensor
    dropout_mask: torch.Tensor | None
    most: torch.Tensor
    reciprocal: torch.Tensor
    amax_s: torch.Tensor
    amax_o: torch.Tensor


def fp8_sdpa_fwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attention_mask: torch.Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    softmax_mode: str,
    d_scale_q: Scale = None,
    d_scale_k: Scale = None,
    d_scale_v: Scale = None,
    q_scale_s: Scale = None,
    q_scale_o: Scale = None,
    d_scale_s: Scale = None,
    is_amax_s: bool = False,
    valid_seq_len: torch.Tensor | None = None,
    seq_padding_type: str = "left",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return attention, its matrix, the dropout mask, and the largest element of the matrix.

    Args:
        q: [..., T, D], as in `attention.sdpa_fwd`.
        k: as in `attention.sdpa_fwd`.
        v: as in `attention.sdpa_fwd`.
        attention_mask: as in `attention.sdpa_fwd`.
        p: probability of dropout.
        scale: factor of the scores, which are the product of q and the transposed k.
        is_causal: query i sees only keys 0 to i.
        softmax_mode: as in `attention.sdpa_fwd`.
        d_scale_q: factor of q.
        d_scale_k: factor of k.
        d_scale_v: factor of v.
        q_scale_s: factor before the matrix is rounded to float8_e4m3fn; None means no rounding.
        q_scale_o: factor before the result is rounded to float8_e4m3fn; None means bfloat16, or the dtype of
            q.
        d_scale_s: factor after the matrix was rounded.
        is_amax_s: True to return the largest element of the matrix, False for an empty tensor instead.
        valid_seq_len: number of valid keys of each batch element.
        seq_padding_type: the side of the padding keys, "left" or "right".
    """
    seed = seeded_random.draw_seeds(1, q.device) if p > 0 else None
    return fp8_sdpa_fwd_dropout_seed(
        seed, q, k, v, attention_mask, p, scale, is_causal, softmax_mode, d_scale_q, d_scale_k, d_scale_v,
        q_scale_s, q_scale_o, d_scale_s, is_amax_s, valid_seq_len, seq_padding_type,
    )  # fmt: skip


fp8_sdpa_fwd_dropout = fp8_sdpa_fwd_non_dropout = fp8_sdpa_fwd


def fp8_sdpa_fwd_dropout_seed(
    seed: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attention_mask: torch.Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    softmax_mode: str,
    d_scale_q: Scale = None,
    d_scale_k: Scale = None,
    d_scale_v: Scale = None,
    q_scale_s: Scale = None,
    q_scale_o: Scale = None,
    d_scale_s: Scale = None,
    is_amax_s: bool = False,
    valid_seq_len: torch.Tensor | None = None,
    seq_padding_type: str = "left",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Do the same as `fp8_sdpa_fwd`, with a given dropout seed."""
    masks = AttentionMasks(attention_mask, is_causal, valid_seq_len, seq_padding_type)
    attended = _fp8_attention(
        seed, (q, k, v), masks, p, scale, softmax_mode, (d_scale_q, d_scale_k, d_scale_v), q_scale_s,
        q_scale_o, d_scale_s,
    )  # fmt: skip
    dropout_mask = (
        torch.empty(0, dtype=torch.bool, device=q.device)
        if attended.dropout_mask is None
        else attended.dropout_mask
    )
    return attended.out, attended.matrix, dropout_mask, _tensor_or_empty(is_amax_s, attended.amax_s)


def fp8_sdpa_bwd(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    P: torch.Tensor,
    dm: torch.Tensor | None,
    is_causal: bool,
    p: float,
    scale: float,
    d_scale_q: Scale,
    d_scale_k: Scale,
    d_scale_v: Scale,
    d_scale_s: Scale,
    d_scale_do: Scale,
    d_scale_ds: Scale,
    q_scale_s: Scale,
    q_scale_ds: Scale,
    is_amax_ds: bool,
    fwd_out: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of `fp8_sdpa_fwd` with respect to q, k and v, and the scores' largest gradient.

    The largest gradient is a magnitude, or an empty tensor if ``is_amax_ds`` is False. The gradients of fp8
    inputs are bfloat16. The gradient of the scores is multiplied by ``q_scale_ds``, rounded to float8_e5m2
    and multiplied by ``d_scale_ds``. ``d_scale_do`` is the factor of ``grad``. ``d_scale_s`` is the factor
    of the matrix ``P`` if the matrix is fp8.
    """
    values = [
        quantization_scales.multiply_by_scale(tensor.float(), factor)
        for tensor, factor in zip((q, k, v), (d_scale_q, d_scale_k, d_scale_v), strict=True)
    ]
    gradient = quantization_scales.multiply_by_scale(grad.float(), d_scale_do)
    matrix = quantization_scales.multiply_by_scale(
        P.float(), d_scale_s if P.dtype in low_precision_rounding.FP8 else None
    )
    dropout_mask = dm if dm is not None and dm.numel() else None
    used = attention.apply_dropout(matrix, dropout_mask, p)
    of_v = torch.matmul(_round_to_fp8_and_back(used, q_scale_s, d_scale_s).transpose(-2, -1), gradient)
    of_matrix = attention.apply_dropout(torch.matmul(gradient, values[2].transpose(-2, -1)), dropout_mask, p)
    of_scores = matrix * (of_matrix - (of_matrix * matrix).sum(-1, keepdim=True))
    amax = _tensor_or_empty(is_amax_ds, _amax(of_scores))
    of_scores = _round_to_fp8_and_back(of_scores, q_scale_ds, d_scale_ds, low_precision_rounding.E5M2) * scale
    of_q = torch.matmul(of_scores, values[1])
    of_k = torch.matmul(of_scores.transpose(-2, -1), values[0])
    return _to_dtype_of(of_q, q), _to_dtype_of(of_k, k), _to_dtype_of(of_v, v), amax


def fp8_sdpa_recomp_fwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attention_mask: torch.Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    requires_backward: bool,
    softmax_mode: str,
    d_scale_q: Scale = None,
    d_scale_k: Scale = None,
    d_scale_v: Scale = None,
    q_scale_s: Scale = None,
    q_scale_o: Scale = None,
    d_scale_s: Scale = None,
    is_amax_s: bool = False,
    is_amax_o: bool = False,
    valid_seq_len: torch.Tensor | None = None,
    seq_padding_type: str = "left",
) -> _Six:
    """Return attention, row maxima, 1 / row sums, the dropout seed, and two largest magnitudes.

    The two magnitudes are the largest in the matrix and in the result. A magnitude that is not requested is
    an empty tensor. Arguments are as for `fp8_sdpa_fwd`.
    """
    seed = (
        seeded_random.draw_seeds(1, q.device) if p > 0 else torch.zeros(1, dtype=torch.int32, device=q.device)
    )
    return fp8_sdpa_recomp_fwd_dropout_seed(
        seed, q, k, v, attention_mask, p, scale, is_causal, requires_backward, softmax_mode, d_scale_q,
        d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s, is_amax_s, is_amax_o, valid_seq_len,
        seq_padding_type,
    )  # fmt: skip


fp8_sdpa_recomp_fwd_dropout = fp8_sdpa_recomp_fwd_non_dropout = fp8_sdpa_recomp_fwd


def fp8_sdpa_recomp_fwd_dropout_seed(
    seed: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attention_mask: torch.Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    requires_backward: bool,
    softmax_mode: str,
    d_scale_q: Scale = None,
    d_scale_k: Scale = None,
    d_scale_v: Scale = None,
    q_scale_s: Scale = None,
    q_scale_o: Scale = None,
    d_scale_s: Scale = None,
    is_amax_s: bool = False,
    is_amax_o: bool = False,
    valid_seq_len: torch.Tensor | None = None,
    seq_padding_type: str = "left",
) -> _Six:
    """Do the same as `fp8_sdpa_recomp_fwd`, with a given dropout seed."""
    masks = AttentionMasks(attention_mask, is_causal, valid_seq_len, seq_padding_type)
    attended = _fp8_attention(
        seed, (q, k, v), masks, p, scale, softmax_mode, (d_scale_q, d_scale_k, d_scale_v), q_scale_s,
        q_scale_o, d_scale_s,
    )  # fmt: skip
    return (
        attended.out,
        _tensor_or_empty(requires_backward, attended.most),
        _tensor_or_empty(requires_backward, attended.reciprocal),
        seed.clone(),
        _tensor_or_empty(is_amax_s, attended.amax_s),
        _tensor_or_empty(is_amax_o, attended.amax_o),
    )


def _fp8_attention(
    seed: torch.Tensor | None,
    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    masks: AttentionMasks,
    p: float,
    scale: float,
    softmax_mode: str,
    factors: tuple[Scale, Scale, Scale],
    q_scale_s: Scale,
    q_scale_o: Scale,
    d_scale_s: Scale,
) -> _Attention:
    q, k, v = (
        quantization_scales.multiply_by_scale(t.float(), factor)
        for t, factor in zip(tensors, factors, strict=True)
    )
    values = attention.masked_scores(q, k, scale, masks, softmax_mode)
    most = values.amax(-1, keepdim=True)
    exponentials = torch.exp(values - most)
    reciprocal = exponentials.sum(-1, keepdim=True).reciprocal()
    matrix = exponentials * reciprocal
    dropout_mask = seeded_random.uniform(seed, matrix.shape) >= p if seed is not None and p > 0 else None
    used = _round_to_fp8_and_back(attention.apply_dropout(matrix, dropout_mask, p), q_scale_s, d_scale_s)
    out = torch.matmul(used, v)
    if q_scale_o is not None:
        result = low_precision_rounding.to_fp8(
            quantization_scales.multiply_by_scale(out, q_scale_o), low_precision_rounding.E4M3
        )
    else:
        result = _to_dtype_of(out, tensors[0])
    amax_s, amax_o = _amax(matrix), _amax(out)
    kind = torch.bfloat16 if tensors[0].dtype in low_precision_rounding.FP8 else tensors[0].dtype
    return _Attention(result, matrix.to(kind), dropout_mask, most, reciprocal, amax_s, amax_o)


def _round_to_fp8_and_back(
    values: torch.Tensor, factor: Scale, back: Scale, dtype: torch.dtype = low_precision_rounding.E4M3
) -> torch.Tensor:
    """Multiply by ``factor``, round to fp8 and multiply by ``back``. Return float32.

    If ``factor`` is None, return the values unchanged.
    """
    if factor is None:
        return values
    return quantization_scales.multiply_by_scale(
        low_precision_rounding.to_fp8(quantization_scales.multiply_by_scale(values, factor), dtype).float(),
        back,
    )


def _to_dtype_of(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    summed = (
        values.sum_to_size(like.shape)
        if values.dim() == like.dim() and _differs_in_batch_only(values, like)
        else values
    )
    return summed.to(torch.bfloat16 if like.dtype in low_precision_rounding.FP8 else like.dtype)


def _differs_in_batch_only(values: torch.Tensor, like: torch.Tensor) -> bool:
    return values.shape[:-2] != like.shape[:-2] and values.shape[-2:] == like.shape[-2:]


def _amax(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() == 0:
        return torch.zeros((), dtype=torch.float32, device=tensor.device)
    return tensor.detach().abs().amax()


def _tensor_or_empty(is_requested: bool, tensor: torch.Tensor) -> torch.Tensor:
    return tensor if is_requested else torch.empty(0, dtype=torch.float32, device=tensor.device)
