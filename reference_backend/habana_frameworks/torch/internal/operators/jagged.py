"""Jagged tensors: concatenated lists of different lengths, as FBGEMM uses them for recommendation models."""

from __future__ import annotations

import torch

#: Modes of `habana_bounds_check_indices`, which define the reaction to an index out of range.
FATAL, WARNING, IGNORE = 0, 1, 2


def embedding_bag_sum(
    input: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    valid_count: torch.Tensor,
    kernel_mode: int,
) -> torch.Tensor:
    """Return the sums of the table rows of each bag: [bags, features].

    Args:
        input: the table, [rows, features].
        indices: row indices of all bags, concatenated; only the first ``valid_count`` are valid.
        offsets: first index of each bag, and the end of the last bag.
        valid_count: integer[1 or more]; only the first element is read.
        kernel_mode: selects a hardware kernel. The result is the same.
    """
    position = torch.arange(indices.numel(), device=input.device)
    bag = torch.searchsorted(offsets.long().contiguous(), position, right=True) - 1
    bags = offsets.numel() - 1
    counted = (position < valid_count.reshape(-1)[0]) & (bag >= 0) & (bag < bags)
    rows = input[torch.where(counted, indices.long(), torch.zeros_like(position))]
    rows = torch.where(counted.unsqueeze(-1), rows, torch.zeros_like(rows))
    total = torch.zeros((bags, input.size(1)), dtype=input.dtype, device=input.device)
    return total.index_add(0, torch.where(counted, bag, torch.zeros_like(bag)), rows)


def embedding_bag_sum_bwd_out(
    out: torch.Tensor,
    input: torch.Tensor,
    indices_bwd: torch.Tensor,
    offsets_bwd: torch.Tensor,
    valid_count_bwd: torch.Tensor,
    kernel_mode: int,
) -> torch.Tensor:
    """Write the gradient of the table: row r is the sum of the gradients of the bags that contain it.

    Args:
        out: [rows, features].
        input: gradients of the bags, [bags, features].
        indices_bwd: bag indices of all rows, concatenated.
        offsets_bwd: first bag of each row in ``indices_bwd``, and the end of the last row.
        valid_count_bwd: as in `embedding_bag_sum`.
        kernel_mode: as in `embedding_bag_sum`.
    """
    return out.copy_(embedding_bag_sum(input, indices_bwd, offsets_bwd, valid_count_bwd, kernel_mode))


def habana_bounds_check_indices(
    indices: torch.Tensor,
    offsets: torch.Tensor,
    warning: torch.Tensor,
    rows_per_table: torch.Tensor,
    bounds_check_mode: int,
    weights: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Set invalid indices to 0 in place. The index -1 is valid: it denotes a pruned row.

    Args:
        indices: row indices, sorted by table and bag.
        offsets: first index of each bag of each table, and the end of the last bag.
        warning: integer[1], the counter of invalid indices in mode 1.
        rows_per_table: integers [tables].
        bounds_check_mode: 0 to raise an error, 1 to count invalid indices, 2 to do neither.
        weights: not used.

    Raises:
        RuntimeError: an index is invalid in mode 0 (detected on the device), or the mode is unknown.
    """
    if bounds_check_mode not in (FATAL, WARNING, IGNORE):
        raise RuntimeError(
            f"bounds_check_indices supports the modes 0, 1 and 2, but the mode is {bounds_check_mode}"
        )
    tables = rows_per_table.numel()
    batch = (offsets.numel() - 1) // tables
    position = torch.arange(indices.numel(), device=indices.device)
    table = torch.searchsorted(offsets.long()[::batch].contiguous(), position, right=True) - 1
    rows = rows_per_table.long()[table.clamp(0, tables - 1)]
    wrong = ((indices < 0) & (indices != -1)) | (indices >= rows)
    if bounds_check_mode == FATAL:
        torch._assert_async(~wrong.any(), "an index is outside of its table: see habana_bounds_check_indices")
    if bounds_check_mode == WARNING:
        warning.add_(wrong.sum().to(warning.dtype))
    indices.copy_(torch.where(wrong, torch.zeros_like(indices), indices))
    return indices, offsets, warning


def habana_expand_into_jagged_permute(
    permute: torch.Tensor, input_offsets: torch.Tensor, output_offsets: torch.Tensor, output_size: int
) -> torch.Tensor:
    """Return the position before the permutation for each element of the permuted lists: [output_size]."""
    position = torch.arange(output_size, device=permute.device)
    segment = torch.searchsorted(output_offsets.long().contiguous(), position, right=True) - 1
    segment = segment.clamp(0, permute.numel() - 1)
    source = input_offsets.long()[permute.long()[segment]]
    return (source + position - output_offsets.long()[segment]).to(permute.dtype)


def habana_permute_1D_sparse_data(
    permute: torch.Tensor, lengths: torch.Tensor, indices: torch.Tensor, weights: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Permute lists. Return lengths, elements and weights of the permuted lists.

    The weights are empty if no weights are passed. The host waits for the device, because ``permute`` and
    the lengths determine the number of elements.
    """
    moved, order = _permuted_order(permute, lengths)
    heavy = torch.empty(0, device=indices.device) if weights is None else weights[order]
    return moved, indices[order], heavy


def habana_permute_1D_sparse_data_without_weights(
    permute: torch.Tensor, lengths: torch.Tensor, indices: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do the same as `habana_permute_1D_sparse_data`, without weights."""
    return habana_permute_1D_sparse_data(permute, lengths, indices)[:2]


#: The 2D operators have ``lengths`` [features, batch]. ``permute`` moves all lists of a feature together.
habana_permute_2D_sparse_data = habana_permute_1D_sparse_data
habana_permute_2D_sparse_data_without_weights = habana_permute_1D_sparse_data_without_weights


def habana_split_permute_cat(
    input: torch.Tensor, indices: torch.Tensor, batch_size: int, num_features: int, dims: int
) -> torch.Tensor:
    """Permute the features of ``input`` [batch, num_features * dims]. A feature has ``dims`` columns."""
    blocks = input.reshape(batch_size, num_features, dims)
    return blocks[:, indices.long()].reshape(batch_size, -1)


def _permuted_order(permute: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the permuted lengths, and the source position of each element."""
    each = lengths.long().reshape(lengths.size(0), -1).sum(1)
    moved = lengths[permute.long()]
    permuted_sizes = each[permute.long()]
    starts = torch.cumsum(each, 0) - each
    ends = torch.cumsum(permuted_sizes, 0)
    begin = torch.cat((ends.new_zeros(1), ends))
    size = int(ends[-1]) if ends.numel() else 0
    order = habana_expand_into_jagged_permute(permute.long(), starts, begin, size)
    return moved, order
