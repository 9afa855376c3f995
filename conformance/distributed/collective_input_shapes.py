"""The shapes of the input tensors that a rank passes to a collective.

Each function takes the position ``me`` of the rank in its group, the group's ``size``, and a base ``shape``.
"""

from __future__ import annotations

from conformance.distributed.collective_call import Shape


def one_tensor(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return the base shape, for a collective with one input tensor per rank."""
    return [shape]


def two_tensors(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return the base shape, and the base shape with an added last dimension of size 2."""
    return [shape, (*shape, 2)]


def one_per_rank(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return the base shape once per rank."""
    return [shape] * size


def shape_of_concatenated_rows(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return the shape of a tensor that concatenates one tensor of the base shape for each rank."""
    return [(size * shape[0], *shape[1:])]


def shape_with_rank_dimension(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return the base shape with a new first dimension, whose size is the number of ranks."""
    return [(size, *shape)]


def shape_of_uneven_rows(position: int, size: int, shape: Shape) -> list[Shape]:
    """Return the shape of one tensor that contains the rows for all ranks, which :func:`rows_sent_to`
    counts.
    """
    return [(sum(rows_sent_to(position, size)), *shape)]


def rows_sent_to(me: int, size: int) -> list[int]:
    """Return the number of rows that rank ``me`` sends to each rank. The numbers differ, and some are 0."""
    return [(2 * me + 3 * to) % 4 for to in range(size)]


def one_per_rank_on_root(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return the base shape once per rank. Every rank has these inputs, but only the root's inputs are
    used.
    """
    return [shape] * size
