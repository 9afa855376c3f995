"""Operators on jagged tensors, under the names of FBGEMM's operators."""

from __future__ import annotations

import torch


def permute_1D_sparse_data(
    permute: torch.Tensor, lengths: torch.Tensor, indices: torch.Tensor, weights: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Permute lists that are stored one after another in ``indices``, with the given lengths.

    Return the permuted lengths [lists], the permuted elements, and the permuted weights or None.
    """
    if weights is None:
        moved, order = torch.ops.hpu.habana_permute_1D_sparse_data_without_weights(permute, lengths, indices)
        return moved, order, None
    permuted = torch.ops.hpu.habana_permute_1D_sparse_data(permute, lengths, indices, weights)
    return permuted[0], permuted[1], permuted[2]


def permute_2D_sparse_data(
    permute: torch.Tensor, lengths: torch.Tensor, indices: torch.Tensor, weights: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Permute features, each of which has one list for each batch element.

    Return the permuted lengths [features, batch], the permuted elements, and the permuted weights or None.
    """
    return permute_1D_sparse_data(permute, lengths, indices, weights)


def expand_into_jagged_permute(
    permute: torch.Tensor, input_offsets: torch.Tensor, output_offsets: torch.Tensor, output_size: int
) -> torch.Tensor:
    """Return, for each element of the permuted lists, the position of the element before the permutation."""
    positions: torch.Tensor = torch.ops.hpu.habana_expand_into_jagged_permute(
        permute, input_offsets, output_offsets, output_size
    )
    return positions


def bounds_check_indices(
    rows_per_table: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    bounds_check_mode: int,
    warning: torch.Tensor,
    weights: torch.Tensor | None = None,
) -> None:
    """Set indices that are not rows of their table to 0, in place. Arguments are in FBGEMM's order."""
    torch.ops.hpu.habana_bounds_check_indices(
        indices, offsets, warning, rows_per_table, bounds_check_mode, weights
    )


def split_permute_cat(
    input: torch.Tensor, indices: torch.Tensor, batch_size: int, num_features: int, dims: int
) -> torch.Tensor:
    """Return ``input`` with its features, which have ``dims`` columns each, in the order of ``indices``."""
    permuted: torch.Tensor = torch.ops.hpu.habana_split_permute_cat(
        input, indices, batch_size, num_features, dims
    )
    return permuted
