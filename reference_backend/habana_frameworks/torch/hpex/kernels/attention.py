"""Fused attention, computed by `torch.ops.hpu`."""

from __future__ import annotations

import math
from typing import Any

from habana_frameworks.torch.hpu import sdp_kernel_flag

import torch
from torch.autograd.function import once_differentiable

_Attended = torch.Tensor | tuple[torch.Tensor, ...]


class FusedSDPA:
    """Fused scaled dot product attention, with an explicit backward pass."""

    @staticmethod
    def apply(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        softmax_mode: str = "None",
        recompute_mode: bool | None = None,
        valid_seq_len: torch.Tensor | None = None,
        seq_padding_type: str = "left",
        return_dropout_mask: bool = False,
        return_attn_probs: bool = False,
    ) -> _Attended:
        """Return the attention of queries q, keys k and values v.

        Args:
            q: shape [..., T, D].
            k: shape [..., S, D]. With shape [batch, heads, S, D], ``k`` may have fewer heads than ``q``. Each
                head of ``k`` then serves a group of heads of ``q``.
            v: shape [..., S, E], with as many heads as ``k``.
            attn_mask: mask that broadcasts with [..., T, S]: a float mask is added to the scores; a bool mask
                is True for visible keys.
            dropout_p: probability of dropout.
            is_causal: query i sees only keys 0 to i.
            scale: factor of the attention scores; None for 1 / sqrt(D).
            softmax_mode: "None", "fast" or "fp32".
            recompute_mode: recompute the attention matrix in the backward pass; None for
                `hpu.recompute_sdp_enabled()`.
            valid_seq_len: number of valid keys of each batch element; for inference with ``is_causal``.
            seq_padding_type: the side of the padding keys, "left" or "right".
            return_dropout_mask: also return the mask of the elements that dropout retained.
            return_attn_probs: also return the attention matrix; for inference only.

        Returns:
            the attention. If the attention matrix or the dropout mask is requested, a tuple: the attention,
            then the matrix, then the mask.

        Raises:
            AssertionError: the combination of options is not supported.
        """
        training = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
        recompute = sdp_kernel_flag.recompute_sdp_enabled() if recompute_mode is None else recompute_mode
        if return_attn_probs:
            assert not training, "return_attn_probs is for inference. Call it under torch.no_grad()."
            recompute = False
        assert not (recompute and training and softmax_mode == "fast" and not is_causal), (
            "softmax_mode 'fast' with recomputation supports training only with is_causal. Use 'None', or "
            "set is_causal."
        )
        assert valid_seq_len is None or (not training and is_causal and attn_mask is None), (
            "valid_seq_len is for inference with is_causal and without attn_mask"
        )
        assert not (return_dropout_mask and recompute), (
            "the variant that recomputes has no dropout mask. Pass recompute_mode=False."
        )
        factor = 1 / math.sqrt(q.size(-1)) if scale is None else scale
        heads = q.size(1) if q.dim() == 4 else 0
        grouped = q.dim() == 4 and k.size(1) not in (1, heads)
        if grouped:
            groups = k.size(1)
            q = q.unflatten(1, (groups, -1))
            k, v = k.unsqueeze(2), v.unsqueeze(2)
            attn_mask = _group_mask(attn_mask, groups, heads)
        rest = (
            attn_mask, dropout_p, factor, is_causal, softmax_mode, valid_seq_len, seq_padding_type
        )  # fmt: skip
        if recompute:
            results: tuple[torch.Tensor, ...] = (_AttentionRecomputingMatrix.apply(q, k, v, training, *rest),)  # type: ignore[no-untyped-call]
        else:
            results = _AttentionSavingMatrix.apply(q, k, v, *rest)  # type: ignore[no-untyped-call]
        if grouped:
            results = tuple(result.flatten(1, 2) if result.dim() == 5 else result for result in results)
        if recompute:
            return results[0]
        out, matrix, dropout_mask = results
        more = ((matrix,) if return_attn_probs else ()) + ((dropout_mask,) if return_dropout_mask else ())
        return (out, *more) if more else out


def fp8_fused_sdpa(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    softmax_mode: str = "None",
    d_scale_q: Any = None,
    d_scale_k: Any = None,
    d_scale_v: Any = None,
    q_scale_s: Any = None,
    q_scale_o: Any = None,
    d_scale_s: Any = None,
    is_amax_s: bool = False,
    is_amax_o: bool = False,
    valid_seq_len: torch.Tensor | None = None,
    seq_padding_type: str = "left",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the attention of fp8 values, for inference, and the largest magnitudes of matrix and attention.

    The scales are arguments of `torch.ops.hpu.fp8_sdpa_recomp_fwd`; either all are tensors or all are
    numbers. All other arguments are as for `FusedSDPA.apply`.
    """
    factor = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    scales = (d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s)
    results = torch.ops.hpu.fp8_sdpa_recomp_fwd(
        q, k, v, attn_mask, dropout_p, factor, is_causal, False, softmax_mode, *scales, is_amax_s, is_amax_o,
        valid_seq_len, seq_padding_type,
    )  # fmt: skip
    return results[0], results[4], results[5]


class PySDPA:
    """Scaled dot product attention from torch's operators, as a reference for `FusedSDPA`."""

    @staticmethod
    def apply(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        is_causal: bool = False,
        with_slice: bool = False,
        *,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        scale: float | None = None,
    ) -> torch.Tensor:
        """Return the attention of queries q, keys k and values v.

        Args:
            q, k, v, attn_mask, dropout_p, scale: as for `FusedSDPA.apply`.
            is_causal: query i sees only keys 0 to i.
            with_slice: not used; on hardware it selects computation in slices of the batch.
        """
        factor = 1 / math.sqrt(q.size(-1)) if scale is None else scale
        scores = torch.matmul(q, k.transpose(-2, -1)) * factor
        if is_causal:
            closed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(closed, float("-inf"))
        if attn_mask is not None:
            is_bool = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, float("-inf")) if is_bool else scores + attn_mask
        matrix = torch.nn.functional.dropout(torch.softmax(scores, -1), dropout_p, dropout_p > 0)
        return torch.matmul(matrix, v)


class PySDPAHinted(PySDPA):
    """`PySDPA` under the name of Gaudi's variant with compiler hints, which this device does not use."""


class _AttentionSavingMatrix(torch.autograd.Function):
    """Autograd function of attention that saves the attention matrix for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, p: float,
        scale: float, is_causal: bool, softmax_mode: str, valid_seq_len: torch.Tensor | None, side: str,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
        out, matrix, dropout_mask = torch.ops.hpu.sdpa_fwd(
            q, k, v, mask, p, scale, is_causal, softmax_mode, valid_seq_len, side
        )
        ctx.save_for_backward(q, k, v, matrix, dropout_mask, out)
        ctx.numbers = is_causal, p, scale
        ctx.mark_non_differentiable(matrix, dropout_mask)
        return out, matrix, dropout_mask

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        q, k, v, matrix, dropout_mask, out = ctx.saved_tensors
        return (
            *torch.ops.hpu.sdpa_bwd(grads[0], q, k, v, matrix, dropout_mask, *ctx.numbers, out),
            *[None] * 7,
        )


class _AttentionRecomputingMatrix(torch.autograd.Function):
    """Autograd function of attention that recomputes the attention matrix in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, training: bool,
        mask: torch.Tensor | None, p: float, scale: float, is_causal: bool, softmax_mode: str,
        valid_seq_len: torch.Tensor | None, side: str,
    ) -> torch.Tensor:  # fmt: skip
        out, most, reciprocal, seed = torch.ops.hpu.sdpa_recomp_fwd(
            q, k, v, mask, p, scale, is_causal, training, softmax_mode, valid_seq_len, side
        )
        ctx.save_for_backward(q, k, v, mask, most, reciprocal, seed, out)
        ctx.numbers = is_causal, p, scale, softmax_mode
        result: torch.Tensor = out
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        *saved, out = ctx.saved_tensors
        return (*torch.ops.hpu.sdpa_recomp_bwd(grads[0], *saved, *ctx.numbers, out), *[None] * 8)


def _group_mask(mask: torch.Tensor | None, groups: int, heads: int) -> torch.Tensor | None:
    """Reshape a mask [batch, heads or 1, T, S] for scores of shape [batch, groups, heads / groups, T, S]."""
    if mask is None or mask.dim() < 3:
        return mask
    if mask.size(-3) == heads:
        split: torch.Tensor = mask.unflatten(-3, (groups, -1))
        return split
    return mask.unsqueeze(-3)
