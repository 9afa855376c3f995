"""Repeat rows for the beams of a beam search, and reorder the beams of a cache."""

from __future__ import annotations

import torch

#: Number of beams per batch element in these operators.
BEAMS = 4


def in_place_interleave_(self: torch.Tensor) -> torch.Tensor:
    """Overwrite each row i with the value that row i // 4 had before the call.

    Raises:
        RuntimeError: the number of rows is not a multiple of 4.
    """
    return self.copy_(in_place_interleave(self))


def in_place_interleave(self: torch.Tensor) -> torch.Tensor:
    """Return the result of `in_place_interleave_` as a new tensor."""
    if self.dim() == 0 or self.size(0) % BEAMS:
        raise RuntimeError(
            f"in_place_interleave needs a number of rows that is a multiple of {BEAMS}, but the shape is "
            f"{list(self.shape)}"
        )
    return self[: self.size(0) // BEAMS].repeat_interleave(BEAMS, 0)


def kv_reorder_(
    self: torch.Tensor, start: torch.Tensor, end: torch.Tensor, beam_idx: torch.Tensor
) -> torch.Tensor:
    """Replace each beam of a cache, between two positions, by the beam that a beam search selected for it.

    Args:
        self: [batch, 4, ..., positions, features] or [batch * 4, ..., positions, features], written.
        start: first position; one number, or one number for each batch element.
        end: position after the last position, in the form of ``start``.
        beam_idx: uint8[batch]; the two highest bits are the source of beam 0, and so on.
    """
    return self.copy_(kv_reorder(self, start, end, beam_idx))


def kv_reorder(
    self: torch.Tensor, start: torch.Tensor, end: torch.Tensor, beam_idx: torch.Tensor
) -> torch.Tensor:
    """Return the result of `kv_reorder_` as a new tensor."""
    batch = beam_idx.numel()
    if self.dim() >= 4 and self.shape[:2] == (batch, BEAMS):
        rows: torch.Tensor = kv_reorder(self.flatten(0, 1), start, end, beam_idx).unflatten(0, (batch, BEAMS))
        return rows
    if self.dim() < 3 or self.size(0) != batch * BEAMS:
        raise RuntimeError(
            f"kv_reorder needs a cache of 3 dimensions or more with {BEAMS} rows for each of the {batch} "
            f"elements of beam_idx, but the cache has the shape {list(self.shape)}"
        )
    shifts = torch.arange(2 * BEAMS - 2, -1, -2, dtype=torch.int32, device=self.device)
    beam = (beam_idx.reshape(-1, 1).to(torch.int32) >> shifts) & (BEAMS - 1)
    first = BEAMS * torch.arange(batch, dtype=torch.int32, device=self.device).unsqueeze(-1)
    moved = self[(first + beam).flatten()]
    position = torch.arange(self.size(-2), device=self.device).reshape(-1, 1)
    inside = (position >= _broadcast_bound_to_rows(start, self, batch)) & (
        position < _broadcast_bound_to_rows(end, self, batch)
    )
    return torch.where(inside, moved, self)


def _broadcast_bound_to_rows(bound: torch.Tensor, cache: torch.Tensor, batch: int) -> torch.Tensor:
    if bound.numel() == 1:
        return bound.reshape(())
    rows = bound.repeat_interleave(BEAMS) if bound.numel() == batch else bound
    return rows.reshape([-1] + [1] * (cache.dim() - 1))
