"""Rotary position embedding (Su et al., 2021): pairs of features turned by angles of their position.

A pair is features i and i + D/2 (mode 0, by blocks, as in GPT-NeoX) or 2i and 2i + 1 (mode 1, as in GPT-J).
"""

from __future__ import annotations

import torch

from .low_precision_rounding import wide

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
    """input * cos + turned input * sin.

    Args:
        input: [..., D]. If ``sin`` has R < D columns, features from R on stay as they are.
        sin: a table [rows, R], whose leading dimensions of 1 do not count, or what broadcasts with ``input``.
        cos: as ``sin``.
        position_ids: rows of the table, [batch, length] or [length]; None for rows in order.
        offset: first row of the table, without ``position_ids``.
        mode: 0 by blocks, 1 by pairs.

    Raises:
        RuntimeError: another mode.
    """
    sine, cosine = _placed(sin, input, position_ids, offset), _placed(cos, input, position_ids, offset)
    part, rest = _split(input, sine.size(-1))
    turned = part * wide(cosine) + _turn(part, mode) * wide(sine)
    return _joined(turned, rest).to(input.dtype)


def rotary_pos_embedding_backward(
    grad_in: torch.Tensor,
    sin: torch.Tensor,
    cos: torch.Tensor,
    position_ids: torch.Tensor | None,
    offset: int,
    mode: int,
) -> torch.Tensor:
    """Gradient of `rotary_pos_embedding` with respect to its input."""
    sine, cosine = _placed(sin, grad_in, position_ids, offset), _placed(cos, grad_in, position_ids, offset)
    part, rest = _split(grad_in, sine.size(-1))
    turned = part * wide(cosine) - _turn(part * wide(sine), mode)
    return _joined(turned, rest).to(grad_in.dtype)


def _turn(part: torch.Tensor, mode: int) -> torch.Tensor:
    """Each pair (a, b) becomes (-b, a)."""
    if mode == BLOCKWISE:
        first, second = part.chunk(2, -1)
        return torch.cat((-second, first), -1)
    if mode != PAIRWISE:
        raise RuntimeError(f"rotary_pos_embedding has the modes 0 and 1, and mode is {mode}")
    pairs = part.unflatten(-1, (-1, 2))
    return torch.stack((-pairs[..., 1], pairs[..., 0]), -1).flatten(-2)


def _split(input: torch.Tensor, columns: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    values = wide(input)
    if columns > input.size(-1) or columns % 2:
        raise RuntimeError(
            f"rotary_pos_embedding turns an even number of features, at most those of the input: the table "
            f"has {columns} columns and the input {input.size(-1)}"
        )
    if columns == input.size(-1):
        return values, None
    return values[..., :columns], values[..., columns:]


def _joined(turned: torch.Tensor, rest: torch.Tensor | None) -> torch.Tensor:
    return turned if rest is None else torch.cat((turned, rest), -1)


def _placed(
    table: torch.Tensor, input: torch.Tensor, position_ids: torch.Tensor | None, offset: int
) -> torch.Tensor:
    """The rows of a table that belong to the positions of the input, in a shape that broadcasts with it."""
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
    # Heads stand before the positions, [batch, heads, length, D], or after them, [batch, length, heads, D].
    before = input.size(-2) == length
    place = rows.dim() - 2 if before else rows.dim() - 1
    return rows.reshape(*rows.shape[:place], *[1] * missing, *rows.shape[place:])
