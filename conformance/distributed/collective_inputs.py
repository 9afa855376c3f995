"""Shapes of a rank's inputs to a collective: functions of its position, the number of ranks and a shape."""

from __future__ import annotations

from conformance.distributed.collective_call import Shape


def single(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor of the shape."""
    return [shape]


def pair(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor of the shape, and one with a last dimension of two added."""
    return [shape, (*shape, 2)]


def one_per_rank(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor of the shape for each rank."""
    return [shape] * size


def shape_of_concatenated_rows(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor with the concatenated rows of all ranks."""
    return [(size * shape[0], *shape[1:])]


def layers_of_all(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor with a new first dimension for the ranks."""
    return [(size, *shape)]


def uneven(position: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor with the rows that the rank sends to all ranks, as :func:`rows_sent_to` lists
    them.
    """
    return [(sum(rows_sent_to(position, size)), *shape)]


def rows_sent_to(me: int, size: int) -> list[int]:
    """Return the numbers of rows that rank ``me`` sends to each rank. They vary, and some are 0."""
    return [(2 * me + 3 * to) % 4 for to in range(size)]


def from_root(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor of the shape for each rank. Every rank has them, but only the root's are used."""
    return [shape] * size
