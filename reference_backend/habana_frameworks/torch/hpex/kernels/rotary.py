"""Rotary position embedding, computed by `torch.ops.hpu.rotary_pos_embedding`."""

from __future__ import annotations

import enum
from typing import Any

import torch


class RotaryPosEmbeddingMode(enum.Enum):
    """Choice of the features that form a pair: i and i + D/2 (blockwise), or 2i and 2i + 1 (pairwise)."""

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
        rotated: torch.Tensor = torch.ops.hpu.rotary_pos_embedding(p, sin, cos, position_ids, offset, mode)
        return rotated

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        gradient = torch.ops.hpu.rotary_pos_embedding_backward(grads[0], *ctx.saved_tensors, *ctx.numbers)
        return (gradient, *[None] * 5)


def apply_rotary_pos_emb(
    p: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor | None = None,
    position_ids: torch.Tensor | None = None,
    offset: int = 0,
    mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
) -> torch.Tensor:
    """Rotate pairs of features by angles that depend on the position.

    With two arguments, ``cos`` is ChatGLM's cache of angles (see `RotaryPosEmbeddingHelperV3.apply`).

    Args:
        p: shape [..., D].
        cos: cosines of the angles, of shape [rows, R] with R <= D and optional leading dimensions of size 1;
            or a tensor that broadcasts with ``p``.
        sin: sines of the angles, of the same shape as ``cos``.
        position_ids: row indices of ``cos`` and ``sin``, of shape [batch, length] or [length]; None for
            consecutive rows.
        offset: first row, if ``position_ids`` is None.
        mode: which features are rotated as a pair.

    Returns:
        A tensor of the shape of ``p``, in float32 if ``p``, ``cos`` or ``sin`` is float32.
    """
    if sin is None:
        cos, sin = _cosines_and_sines_of(p, cos)
        mode = RotaryPosEmbeddingMode.PAIRWISE
    if torch.float32 in (p.dtype, cos.dtype, sin.dtype):
        p, cos, sin = p.float(), cos.float(), sin.float()
    else:
        cos, sin = cos.to(p.dtype), sin.to(p.dtype)
    rotated: torch.Tensor = _Rotary.apply(p, cos, sin, position_ids, offset, mode.value)  # type: ignore[no-untyped-call]
    return rotated


def _cosines_and_sines_of(p: torch.Tensor, cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cosines and the sines of ChatGLM's cache of angles, in shapes that broadcast with ``p``."""
    length, pairs = p.size(0), cache.size(-2)
    by_position = cache[:length].reshape(length, -1, 1, pairs, 2)
    cosine, sine = (by_position[..., column].repeat_interleave(2, -1) for column in (0, 1))
    return cosine, sine


class RotaryPosEmbeddingHelperV1:
    """Rotary embedding of blockwise pairs (features i and i + D/2), at positions counted from an offset."""

    @staticmethod
    def apply(p: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, offset: int) -> torch.Tensor:
        """Rotate pairs of features of ``p`` (see `apply_rotary_pos_emb`).

        Args:
            p: shape [..., D].
            cos: cosines, of shape [..., D], [rows, D] or [..., offset + D].
            sin: sines, of the same shape as ``cos``.
            offset: with shape [rows, D], the first row; with shape [..., offset + D], the number of leading
                columns to skip.
        """
        if offset and cos.size(-1) == offset + p.size(-1):
            return apply_rotary_pos_emb(p, cos[..., offset:], sin[..., offset:])
        return apply_rotary_pos_emb(p, cos, sin, None, offset)


class RotaryPosEmbeddingHelperV2:
    """Rotary embedding of blockwise pairs (features i and i + D/2), at given positions."""

    @staticmethod
    def apply(
        p: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, position_ids: torch.Tensor | None
    ) -> torch.Tensor:
        """Rotate pairs of features of ``p`` by angles of ``position_ids`` (see `apply_rotary_pos_emb`)."""
        return apply_rotary_pos_emb(p, cos, sin, position_ids)


class RotaryPosEmbeddingHelperV3:
    """Rotary embedding in blockwise or pairwise mode, at given positions or with ChatGLM's angle cache."""

    @staticmethod
    def apply(
        p: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
    ) -> torch.Tensor:
        """Rotate pairs of features of ``p`` (see `apply_rotary_pos_emb`).

        With two arguments, ``p`` has the shape [length, batch, heads, D], and ``cos`` is a cache of cosines
        and sines for the pairs 2i and 2i + 1. The cache has the shape [rows, ..., R / 2, 2]; its first
        ``length`` rows are used. A row has values for each batch element, or for the whole batch. Features
        from R on are unchanged.
        """
        return apply_rotary_pos_emb(p, cos, sin, position_ids, 0, mode)
