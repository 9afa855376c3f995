"""The forms of steps: their text, what they take, and how large the numbers become that they make."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch

FLOATS = ("float32", "bfloat16")
NUMBERS = (*FLOATS, "int64")
ALL = (*NUMBERS, "bool")

Shape = tuple[int, ...]
#: The arguments of a step for its first operand.
Choice = Callable[[Random, torch.Tensor], tuple[Any, ...]]
#: The largest number among a form's results and their partial sums: of the largest of each operand, the
#: operands and the arguments.
Growth = Callable[[Sequence[float], Sequence[torch.Tensor], tuple[Any, ...]], float]


class Unfit(Exception):
    """A step does not fit: another one is chosen."""


@dataclasses.dataclass(frozen=True)
class Form:
    """Everything about a form but its text.

    ``kind`` is ``call`` (returns a tensor of its own), ``view`` or ``write`` (changes its first operand and
    returns it). ``others`` are (role, relation) of the operands after the first, the relation to its shape:
    ``like`` (broadcasts to it), ``same``, ``line`` (one dimension, that of the first argument) or ``columns``
    (of a second factor). ``elementwise`` writes may read the very elements that they write. ``packed`` views
    depend on strides, which documentation leaves free for results of calls.
    """

    kind: str
    others: tuple[tuple[str, str], ...] = ()
    choose: Choice = lambda chance, x: ()
    growth: Growth = lambda sizes, operands, arguments: max(sizes, default=0.0)
    dtypes: tuple[str, ...] = ALL
    elementwise: bool = True
    packed: bool = False


VALUE, SAME = (("value", "like"),), (("value", "same"),)
MASK = (("mask", "like"),)


def a_dim(chance: Random, x: torch.Tensor) -> tuple[int]:
    """Choose a dimension."""
    if not x.dim():
        raise Unfit
    return (chance.randrange(x.dim()),)


def two_dims(chance: Random, x: torch.Tensor) -> tuple[int, int]:
    """Choose two dimensions."""
    if x.dim() < 2:
        raise Unfit
    first, second = chance.sample(range(x.dim()), 2)
    return first, second


def a_part(chance: Random, x: torch.Tensor) -> tuple[int, int, int]:
    """Choose a dimension, a start and a length."""
    (dim,) = a_dim(chance, x)
    length = chance.randint(1, x.shape[dim])
    return dim, chance.randint(0, x.shape[dim] - length), length


def a_slice(chance: Random, x: torch.Tensor) -> tuple[int, int]:
    """Choose a start and a step."""
    if not x.dim():
        raise Unfit
    return chance.randint(0, 1), chance.choice((1, 2, 2, 3))


def an_element(chance: Random, x: torch.Tensor) -> tuple[int, int]:
    """Choose a dimension and a place in it."""
    (dim,) = a_dim(chance, x)
    return dim, chance.randrange(-x.shape[dim], x.shape[dim])


def a_larger_shape(chance: Random, x: torch.Tensor) -> tuple[Shape]:
    """Choose a shape to which the tensor expands."""
    shape = [chance.randint(2, 3) if size == 1 else size for size in x.shape]
    return ((chance.randint(1, 3), *shape),) if chance.random() < 0.5 else (tuple(shape),)


def another_shape(chance: Random, x: torch.Tensor) -> tuple[Shape]:
    """Choose a shape of as many elements."""
    count = x.numel()
    shape: list[int] = []
    while count > 1 and len(shape) < 2:
        factor = chance.choice([n for n in range(1, count + 1) if count % n == 0])
        shape.append(factor)
        count //= factor
    return ((*shape, count),)


def an_order(chance: Random, x: torch.Tensor) -> tuple[Shape]:
    """Choose an order of the dimensions."""
    return (tuple(chance.sample(range(x.dim()), x.dim())),)


def a_window(chance: Random, x: torch.Tensor) -> tuple[int, int, int]:
    """Choose a dimension, a size and a step."""
    (dim,) = a_dim(chance, x)
    return dim, chance.randint(1, x.shape[dim]), chance.randint(1, 2)


def a_stride(chance: Random, x: torch.Tensor) -> tuple[Shape, Shape, int]:
    """Choose sizes, strides and an offset within the memory of a packed tensor."""
    if x.numel() < 2:
        raise Unfit
    step = chance.randint(1, 2)
    offset = chance.randrange(x.numel() - 1)
    count = chance.randint(1, (x.numel() - 1 - offset) // step + 1)
    rows = chance.choice([n for n in range(1, count + 1) if count % n == 0])
    return (rows, count // rows), (count // rows * step, step), offset


def a_diagonal(chance: Random, x: torch.Tensor) -> tuple[int]:
    """Choose a diagonal of a matrix."""
    if x.dim() != 2:
        raise Unfit
    return (chance.randint(-1, 1),)


def nothing_of_a_matrix(chance: Random, x: torch.Tensor) -> tuple[()]:
    """Choose nothing, for tensors of two dimensions or more."""
    if x.dim() < 2:
        raise Unfit
    return ()


def the_first_dim(chance: Random, x: torch.Tensor) -> tuple[int]:
    """Choose the first dimension, which the text of the form implies."""
    if not x.dim():
        raise Unfit
    return (0,)


def number(chance: Random, x: torch.Tensor) -> tuple[Any, ...]:
    """Choose a number that every dtype has."""
    return (chance.choice((True, False)) if x.dtype == torch.bool else chance.choice((-2, 1, 2)),)


def dim_and_number(chance: Random, x: torch.Tensor) -> tuple[Any, ...]:
    """Choose a dimension and a number."""
    return (*a_dim(chance, x), *number(chance, x))


def of_sum(sizes: Sequence[float], operands: Sequence[Any], arguments: tuple[Any, ...]) -> float:
    """Return the sum of the sizes."""
    return sum(sizes)


def of_product(sizes: Sequence[float], operands: Sequence[Any], arguments: tuple[Any, ...]) -> float:
    """Return the product of the sizes."""
    return math.prod(sizes)


def of_number(sizes: Sequence[float], operands: Sequence[Any], arguments: tuple[Any, ...]) -> float:
    """Return the size of the first operand or of a number among the arguments."""
    return max(sizes[0], 2.0)


def along(which: int) -> Growth:
    """Return the growth of sums along the dimension that is the first argument."""
    return lambda sizes, operands, arguments: sizes[which] * operands[which].shape[arguments[0]]


def of_all(sizes: Sequence[float], operands: Sequence[Any], arguments: tuple[Any, ...]) -> float:
    """Return the size of a sum of all elements."""
    return float(sizes[0] * operands[0].numel())


def of_matmul(first: int) -> Growth:
    """Return the growth of a matrix product; ``tf32`` rounds factors of more than eleven bits."""

    def growth(sizes: Sequence[float], operands: Sequence[Any], arguments: tuple[Any, ...]) -> float:
        left, right = sizes[first], sizes[first + 1]
        return math.inf if max(left, right) > 1024 else left * right * operands[first].shape[-1]

    return growth
