"""Rotary position embedding (Su et al., 2021): pairs of features are rotated by position-dependent angles.

A pair consists of features i and i + D/2 (mode 0, blockwise, GPT-NeoX) or 2i and 2i + 1 (mode 1, pairwise,
GPT-J).
"""

from __future__ import annotations

import torch

from .low_precision_rounding import to_compute_dtype

BLOCKWISE = 0
PAIRWISE = 1


def rotary_pos_embedding(
    input: torch.Tensor,
    sin: torch.Tensor,
    cos: torch.Tensor,
    position_ids: torch.Tensor | None,
    offset: int,
    mode: int,
) -> torch.Tensor:
    """Return input * cos + rotated input * sin.

    Args:
        input: [..., D]. If ``sin`` has R < D columns, features from R on are unchanged.
        sin: a table [rows, R] with optional leading dimensions of size 1, or a tensor that broadcasts with
            ``input``.
        cos: as ``sin``.
        position_ids: row indices of the table, [batch, length] or [length]; None for consecutive rows.
        offset: first row of the table, if ``position_ids`` is None.
        mode: 0 blockwise, 1 pairwise.

    Raises:
        RuntimeError: the mode is unknown.
    """
    sine, cosine = (
        _table_rows(sin, input, position_ids, offset),
        _table_rows(cos, input, position_ids, offset),
    )
    part, rest = _split_features(input, sine.size(-1))
    turned = part * to_compute_dtype(cosine) + _rotate_pairs(part, mode) * to_compute_dtype(sine)
    return _join_features(turned, rest).to(input.dtype)


def rotary_pos_embedding_backward(
    grad_in: torch.Tensor,
    sin: torch.Tensor,
    cos: torch.Tensor,
    position_ids: torch.Tensor | None,
    offset: int,
    mode: int,
) -> torch.Tensor:
    """Return the gradient of `rotary_pos_embedding` with respect to its input."""
    sine, cosine = (
        _table_rows(sin, grad_in, position_ids, offset),
        _table_rows(cos, grad_in, position_ids, offset),
    )
    part, rest = _split_features(grad_in, sine.size(-1))
    turned = part * to_compute_dtype(cosine) - _rotate_pairs(part * to_compute_dtype(sine), mode)
    return _join_features(turned, rest).to(grad_in.dtype)


def _rotate_pairs(part: torch.Tensor, mode: int) -> torch.Tensor:
    """Replace each pair (a, b) by (-b, a)."""
    if mode == BLOCKWISE:
        first, second = part.chunk(2, -1)
        return torch.cat((-second, first), -1)
    if mode != PAIRWISE:
        raise RuntimeError(f"rotary_pos_embedding supports the modes 0 and 1, but mode is {mode}")
    pairs = part.unflatten(-1, (-1, 2))
    return torch.stack((-pairs[..., 1], pairs[..., 0]), -1).flatten(-2)


def _split_features(input: torch.Tensor, columns: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    values = to_compute_dtype(input)
    if columns > input.size(-1) or columns % 2:
        raise RuntimeError(
            "rotary_pos_embedding needs a table with an even number of columns, at most as many as the input "
            f"has features, but the table has {columns} columns and the input {input.size(-1)} features"
        )
    if columns == input.size(-1):
        return values, None
    return values[..., :columns], values[..., columns:]


def _join_features(turned: torch.Tensor, rest: torch.Tensor | None) -> torch.Tensor:
    return turned if rest is None else torch.cat((turned, rest), -1)


def _table_rows(
    table: torch.Tensor, input: torch.Tensor, position_ids: torch.Tensor | None, offset: int
) -> torch.Tensor:
    """Return the table rows for the positions of the input, in a shape that broadcasts with the input."""
    if position_ids is None:
        if table.dim() < 2 or input.dim() < 2 or table.size(-2) <= 1:
            return table
        length = input.size(-2)
        if offset == 0 and table.size(-2) == length:
            return table
        return table.narrow(-2, offset, length)
    if position_ids.dim() == 1:
        position_ids = position_ids.unsqueeze(0)
    rows = table.reshape(table.shape[-2:])[position_ids]
    missing = input.dim() - rows.dim()
    if missing <= 0:
        return rows
    length = position_ids.size(-1)
    # Heads precede the positions, [batch, heads, length, D], or follow them, [batch, length, heads, D].
    before = input.size(-2) == length
    insert_at = rows.dim() - 2 if before else rows.dim() - 1
    return rows.reshape(*rows.shape[:insert_at], *[1] * missing, *rows.shape[insert_at:])
