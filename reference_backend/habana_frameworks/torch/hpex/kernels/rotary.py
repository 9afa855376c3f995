"""Rotary position embedding; `torch.ops.hpu.rotary_pos_embedding` computes it."""

from __future__ import annotations

import enum
from typing import Any

import torch


class RotaryPosEmbeddingMode(enum.Enum):
    """The choice of features that make a pair: i and i + D/2, or 2i and 2i + 1."""

    BLOCKWISE = 0
    PAIRWISE = 1


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, p: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, position_ids: torch.Tensor | None,
        offset: int, mode: int,
    ) -> torch.Tensor:  # fmt: skip
        ctx.save_for_backward(sin, cos, position_ids)
        ctx.numbers = offset, mode
        found: torch.Tensor = torch.ops.hpu.rotary_pos_embedding(p, sin, cos, position_ids, offset, mode)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        gradient = torch.ops.hpu.rotary_pos_embedding_backward(grads[0], *ctx.saved_tensors, *ctx.numbers)
        return (gradient, *[None] * 5)


def apply_rotary_pos_emb(
    p: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    offset: int = 0,
    mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
) -> torch.Tensor:
    """Turn pairs of features by angles of their position.

    Args:
        p: [..., D].
        cos: cosines, [rows, R] with R <= D behind any dimensions of 1, or what broadcasts with ``p``.
        sin: sines, as ``cos``.
        position_ids: rows of ``cos`` and ``sin``, [batch, length] or [length]; None for rows in order.
        offset: first row, without ``position_ids``.
        mode: which features make a pair.

    Returns:
        a tensor as ``p``, in float32 if any of the three is float32.
    """
    if torch.float32 in (p.dtype, cos.dtype, sin.dtype):
        p, cos, sin = p.float(), cos.float(), sin.float()
    else:
        cos, sin = cos.to(p.dtype), sin.to(p.dtype)
    found: torch.Tensor = _Rotary.apply(p, cos, sin, position_ids, offset, mode.value)
    return found


class RotaryPosEmbeddingHelperV1:
    """Pairs by blocks, at positions from an offset on."""

    @staticmethod
    def apply(p: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, offset: int) -> torch.Tensor:
        """`apply_rotary_pos_emb` with an offset."""
        return apply_rotary_pos_emb(p, cos, sin, None, offset)


class RotaryPosEmbeddingHelperV2:
    """Pairs by blocks, at positions that are given."""

    @staticmethod
    def apply(
        p: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, position_ids: torch.Tensor | None
    ) -> torch.Tensor:
        """`apply_rotary_pos_emb` with positions."""
        return apply_rotary_pos_emb(p, cos, sin, position_ids)


class RotaryPosEmbeddingHelperV3:
    """Pairs of either kind, at positions that are given; or by the cache of ChatGLM."""

    @staticmethod
    def apply(
        p: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
    ) -> torch.Tensor:
        """`apply_rotary_pos_emb` with positions and a mode.

        With two arguments the second is a cache [length, batch or 1, R / 2, 2] of cosines and sines of pairs
        2i and 2i + 1, and ``p`` is [length, batch, heads, D]; features from R on stay as they are.
        """
        if sin is not None:
            return apply_rotary_pos_emb(p, cos, sin, position_ids, 0, mode)
        cache = cos[: p.size(0)]
        if cache.dim() == 3:
            cache = cache.unsqueeze(1)
        cosine, sine = (cache[..., place].repeat_interleave(2, -1).unsqueeze(2) for place in (0, 1))
        return apply_rotary_pos_emb(p, cosine, sine, None, 0, RotaryPosEmbeddingMode.PAIRWISE)
