"""The shapes of the input tensors that a rank passes to a collective.

Each function takes the position ``group_rank`` of the rank in its group, the group's ``size``, and a base
``shape``.
"""

from __future__ import annotations

from conformance.distributed.collective_call import Shape


def single_tensor_shapes(group_rank: int, size: int, shape: Shape) -> list[Shape]:
    """Return the base shape, for a collective with one input tensor per rank."""
    return [shape]


def two_tensor_shapes(group_rank: int, size: int, shape: Shape) -> list[Shape]:
    """Return the base shape, and the base shape with an added last dimension of size 2."""
    return [shape, (*shape, 2)]


def shapes_per_rank(group_rank: int, size: int, shape: Shape) -> list[Shape]:
    """Return the base shape once per rank."""
    return [shape] * size


def concatenated_rows_shapes(group_rank: int, size: int, shape: Shape) -> list[Shape]:
    """Return the shape of a tensor that concatenates one tensor of the base shape for each rank."""
    return [(size * shape[0], *shape[1:])]


def rank_dimension_shapes(group_rank: int, size: int, shape: Shape) -> list[Shape]:
    """Return the base shape with a new first dimension, whose size is the number of ranks."""
    return [(size, *shape)]


def uneven_rows_shapes(group_rank: int, size: int, shape: Shape) -> list[Shape]:
    """Return the shape of one tensor that contains the rows for all ranks, which
    :func:`uneven_row_counts_per_rank` counts.
    """
    return [(sum(uneven_row_counts_per_rank(group_rank, size)), *shape)]


def uneven_row_counts_per_rank(group_rank: int, size: int) -> list[int]:
    """Return the number of rows that rank ``group_rank`` sends to each rank.

    The numbers differ, and some are 0.
    """
    return [(2 * group_rank + 3 * to) % 4 for to in range(size)]


def root_shapes_per_rank(group_rank: int, size: int, shape: Shape) -> list[Shape]:
    """Return the base shape once per rank. Every rank has these inputs, but only the root's inputs are
    used.
    """
    return [shape] * size
