"""Describe the forms of program steps: their operands, the random choice of arguments, and bounds of the
results.
"""

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
#: Chooses random arguments for a step. The arguments fit the first operand, a tensor.
Choice = Callable[[Random, torch.Tensor], tuple[Any, ...]]
#: Returns an upper bound of the absolute values of the results and partial sums of a step. The parameters are
#: the largest absolute value of each operand, the operands, and the arguments.
Growth = Callable[[Sequence[float], Sequence[torch.Tensor], tuple[Any, ...]], float]


class StepRejected(Exception):
    """A step violates a rule. The generator chooses another step."""


@dataclasses.dataclass(frozen=True)
class StepForm:
    """One form of a step.

    ``choose`` chooses the arguments of a step. ``growth`` returns a bound for the magnitude of its results.

    :data:`.steps.FORMS` maps the text of each form to its description.

    ``kind`` is ``call`` (returns a new tensor), ``view`` or ``write`` (changes its first operand and returns
    it).

    ``others`` has a pair (role, relation) for each further operand. The role is ``value`` (numbers), ``mask``
    (booleans) or ``order`` (indices). The relation says how the operand's shape depends on the shape of the
    first operand: ``like`` (broadcasts to it), ``same`` (equals it), ``line`` (one dimension, as long as the
    dimension that the step's first argument selects, by default the first) or ``columns`` (the second
    factor of a matrix product).

    If ``elementwise`` is true, a write may read the elements that it writes.

    If ``packed`` is true, the view depends on the strides of its operand. The operand must then be an input
    or a view of an input, because documentation does not specify the strides of the result of a call.
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


def choose_dim(chance: Random, x: torch.Tensor) -> tuple[int]:
    """Choose a dimension."""
    if not x.dim():
        raise StepRejected
    return (chance.randrange(x.dim()),)


def choose_two_dims(chance: Random, x: torch.Tensor) -> tuple[int, int]:
    """Choose two dimensions."""
    if x.dim() < 2:
        raise StepRejected
    first, second = chance.sample(range(x.dim()), 2)
    return first, second


def choose_narrow(chance: Random, x: torch.Tensor) -> tuple[int, int, int]:
    """Choose a dimension, a start and a length."""
    (dim,) = choose_dim(chance, x)
    length = chance.randint(1, x.shape[dim])
    return dim, chance.randint(0, x.shape[dim] - length), length


def choose_slice(chance: Random, x: torch.Tensor) -> tuple[int, int]:
    """Choose a start and a step."""
    if not x.dim():
        raise StepRejected
    return chance.randint(0, 1), chance.choice((1, 2, 2, 3))


def choose_select(chance: Random, x: torch.Tensor) -> tuple[int, int]:
    """Choose a dimension and an index in it."""
    (dim,) = choose_dim(chance, x)
    return dim, chance.randrange(-x.shape[dim], x.shape[dim])


def choose_expanded_shape(chance: Random, x: torch.Tensor) -> tuple[Shape]:
    """Choose a shape to which the tensor expands."""
    shape = [chance.randint(2, 3) if size == 1 else size for size in x.shape]
    return ((chance.randint(1, 3), *shape),) if chance.random() < 0.5 else (tuple(shape),)


def choose_reshaped_shape(chance: Random, x: torch.Tensor) -> tuple[Shape]:
    """Choose a shape with the same number of elements."""
    count = x.numel()
    shape: list[int] = []
    while count > 1 and len(shape) < 2:
        factor = chance.choice([n for n in range(1, count + 1) if count % n == 0])
        shape.append(factor)
        count //= factor
    return ((*shape, count),)


def choose_permutation(chance: Random, x: torch.Tensor) -> tuple[Shape]:
    """Choose a permutation of the dimensions."""
    return (tuple(chance.sample(range(x.dim()), x.dim())),)


def choose_unfold(chance: Random, x: torch.Tensor) -> tuple[int, int, int]:
    """Choose a dimension, a size and a step."""
    (dim,) = choose_dim(chance, x)
    return dim, chance.randint(1, x.shape[dim]), chance.randint(1, 2)


def choose_as_strided(chance: Random, x: torch.Tensor) -> tuple[Shape, Shape, int]:
    """Choose sizes, strides and an offset within the memory of a contiguous tensor."""
    if x.numel() < 2:
        raise StepRejected
    step = chance.randint(1, 2)
    offset = chance.randrange(x.numel() - 1)
    count = chance.randint(1, (x.numel() - 1 - offset) // step + 1)
    rows = chance.choice([n for n in range(1, count + 1) if count % n == 0])
    return (rows, count // rows), (count // rows * step, step), offset


def choose_diagonal(chance: Random, x: torch.Tensor) -> tuple[int]:
    """Choose a diagonal of a matrix."""
    if x.dim() != 2:
        raise StepRejected
    return (chance.randint(-1, 1),)


def require_matrix(chance: Random, x: torch.Tensor) -> tuple[()]:
    """Choose no arguments; reject tensors with fewer than two dimensions."""
    if x.dim() < 2:
        raise StepRejected
    return ()


def choose_dimension_zero(chance: Random, x: torch.Tensor) -> tuple[int]:
    """Choose dimension 0, the only dimension that the text of the form allows."""
    if not x.dim():
        raise StepRejected
    return (0,)


def choose_number(chance: Random, x: torch.Tensor) -> tuple[Any, ...]:
    """Choose a number that every dtype represents."""
    return (chance.choice((True, False)) if x.dtype == torch.bool else chance.choice((-2, 1, 2)),)


def choose_dim_and_number(chance: Random, x: torch.Tensor) -> tuple[Any, ...]:
    """Choose a dimension and a number."""
    return (*choose_dim(chance, x), *choose_number(chance, x))


def sum_bound(largest_values: Sequence[float], operands: Sequence[Any], arguments: tuple[Any, ...]) -> float:
    """Return the sum of the operands' largest values: the bound of a sum or difference."""
    return sum(largest_values)


def product_bound(
    largest_values: Sequence[float], operands: Sequence[Any], arguments: tuple[Any, ...]
) -> float:
    """Return the product of the operands' largest values: the bound of an elementwise product."""
    return math.prod(largest_values)


def number_bound(
    largest_values: Sequence[float], operands: Sequence[Any], arguments: tuple[Any, ...]
) -> float:
    """Return the larger of the first operand's bound and 2, the largest number argument."""
    return max(largest_values[0], 2.0)


def dimension_sum_bound(operand_index: int) -> Growth:
    """Return a function that bounds the sums of an operand along the dimension in the first argument."""
    return lambda sizes, operands, arguments: (
        sizes[operand_index] * operands[operand_index].shape[arguments[0]]
    )


def total_sum_bound(
    largest_values: Sequence[float], operands: Sequence[Any], arguments: tuple[Any, ...]
) -> float:
    """Return a bound of the sum of all elements of the first operand."""
    return float(largest_values[0] * operands[0].numel())


def matmul_bound(first: int) -> Growth:
    """Return a function that bounds a matrix product. ``first`` is the index of its first factor.

    A factor that may contain a number of more than eleven bits is rejected, because ``tf32`` would round it.
    """

    def bound(largest_values: Sequence[float], operands: Sequence[Any], arguments: tuple[Any, ...]) -> float:
        left, right = largest_values[first], largest_values[first + 1]
        return math.inf if max(left, right) > 1024 else left * right * operands[first].shape[-1]

    return bound
