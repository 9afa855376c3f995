"""Shapes of a rank's inputs to a collective: functions of its position, the number of ranks and a shape."""

from __future__ import annotations

from conformance.distributed.collective_call import Shape


def single(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor of the shape."""
    return [shape]


def pair(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor of the shape, and one with two elements for each of its."""
    return [shape, (*shape, 2)]


def one_per_rank(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor of the shape for each rank."""
    return [shape] * size


def rows_of_all(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor with the rows of all ranks behind each other."""
    return [(size * shape[0], *shape[1:])]


def layers_of_all(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor with a new first dimension for the ranks."""
    return [(size, *shape)]


def uneven(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor with the rows that the rank sends to all, as many as :func:`parts` says."""
    return [(sum(parts(me, size)), *shape)]


def parts(me: int, size: int) -> list[int]:
    """Return the numbers of rows that rank ``me`` sends to each rank, different for every pair, some of them
    0.
    """
    return [(2 * me + 3 * to) % 4 for to in range(size)]


def from_root(me: int, size: int, shape: Shape) -> list[Shape]:
    """Return one tensor of the shape for each rank; every rank has them, and only the root's count."""
    return [shape] * size
