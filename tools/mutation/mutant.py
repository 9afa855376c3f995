"""A mutant: a mutation point, a mutation operator and a trigger condition."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    """A mutant as a fault injector injects it.

    ``point`` is an overload in torch's spelling (``aten::add.Tensor``), or a point of another family
    (``module::set_device``). ``operator`` is one of :data:`tools.mutation.injectors.MUTATION_OPERATORS`.
    ``position`` is the index of the mutated argument or result. ``value`` is the parameter of the operator: a
    size, a rank, a number of calls, the value of an option, or a second position. ``dtype`` confines the
    mutant to calls whose first tensor argument has this dtype; None means every dtype.
    """

    point: str
    operator: str
    position: int = 0
    value: int = 0
    dtype: str | None = None

    def __str__(self) -> str:
        """Return the mutant's name, such as ``aten::add.Tensor last-element 0 0 @float32``."""
        return f"{self.point} {self.operator} {self.position} {self.value} @{self.dtype or 'any'}"

    @staticmethod
    def parse(text: str) -> Mutant:
        """Return the mutant whose name is ``text``."""
        point, operator, position, value, dtype = text.split(" ")
        dtype_name = dtype.removeprefix("@")
        return Mutant(point, operator, int(position), int(value), None if dtype_name == "any" else dtype_name)

    @property
    def is_of_kernel(self) -> bool:
        """True if the point is the kernel of an overload."""
        return self.point.startswith("aten::")

    def in_every_dtype(self) -> Mutant:
        """Return a copy of the mutant that is not confined to one dtype."""
        return dataclasses.replace(self, dtype=None)


def interposer_description(mutant: Mutant, dtypes: dict[str, int]) -> tuple[str, int, int, int]:
    """Return the mutant as the interposer expects it: operator, position, value and dtype number. ``dtypes``
    maps dtype names to the numbers of torch's scalar types.
    """
    return (
        mutant.operator,
        mutant.position,
        mutant.value,
        -1 if mutant.dtype is None else dtypes[mutant.dtype],
    )


def scalar_types() -> dict[str, int]:
    """Return the numbers of torch's scalar types (c10/core/ScalarType.h) by dtype name."""
    names: list[Any] = [
        *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
        *("complex32", "complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"),
    ]
    return {name: number for number, name in enumerate(names)}
