"""A fault: a place, a kind, and the condition outside of which it sleeps."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, order=True)
class Fault:
    """A fault as a planter plants it.

    ``place`` is an overload as torch writes it (``aten::add.Tensor``), or a place of another family
    (``module::set_device``); ``kind`` one of :data:`tools.mutation.injectors.KINDS`; ``position`` the
    argument or the result that the fault concerns; ``value`` a size, a rank or a number of calls; ``dtype``
    the dtype of the first tensor among the arguments to which the fault is confined, None for every dtype.
    """

    place: str
    kind: str
    position: int = 0
    value: int = 0
    dtype: str | None = None

    def __str__(self) -> str:
        """``aten::add.Tensor last-element 0 0 @float32``, the mutant's name."""
        return f"{self.place} {self.kind} {self.position} {self.value} @{self.dtype or 'any'}"

    @staticmethod
    def parse(text: str) -> Fault:
        """Read the name of a mutant."""
        place, kind, position, value, dtype = text.split(" ")
        word = dtype.removeprefix("@")
        return Fault(place, kind, int(position), int(value), None if word == "any" else word)

    @property
    def is_of_kernel(self) -> bool:
        """True if the place is the kernel of an overload."""
        return self.place.startswith("aten::")

    def anywhere(self) -> Fault:
        """Return the same fault without a dtype."""
        return dataclasses.replace(self, dtype=None)


def description(fault: Fault, dtypes: dict[str, int]) -> tuple[str, int, int, int]:
    """Return the fault as the interposer takes it; ``dtypes`` are the numbers of torch's scalar types."""
    return fault.kind, fault.position, fault.value, -1 if fault.dtype is None else dtypes[fault.dtype]


def scalar_types() -> dict[str, int]:
    """The numbers of torch's scalar types (c10/core/ScalarType.h) by the names of dtypes."""
    names: list[Any] = [
        *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
        *("complex32", "complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"),
    ]
    return {name: number for number, name in enumerate(names)}
