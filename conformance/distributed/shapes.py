"""The shapes of what each rank gives to a collective: of its place, the number of ranks, a shape."""

from __future__ import annotations

from conformance.distributed.calls import Shape


def one(me: int, size: int, shape: Shape) -> list[Shape]:
    return [shape]


def two(me: int, size: int, shape: Shape) -> list[Shape]:
    return [shape, (*shape, 2)]


def each(me: int, size: int, shape: Shape) -> list[Shape]:
    return [shape] * size


def long(me: int, size: int, shape: Shape) -> list[Shape]:
    return [(size * shape[0], *shape[1:])]


def stack(me: int, size: int, shape: Shape) -> list[Shape]:
    return [(size, *shape)]


def uneven(me: int, size: int, shape: Shape) -> list[Shape]:
    return [(sum(parts(me, size)), *shape)]


def parts(me: int, size: int) -> list[int]:
    """Rows that rank ``me`` sends to each rank, different for every pair, some of them none."""
    return [(2 * me + 3 * to) % 4 for to in range(size)]


def from_root(me: int, size: int, shape: Shape) -> list[Shape]:
    return [shape] * size  # every rank is given them, and only the root's count
