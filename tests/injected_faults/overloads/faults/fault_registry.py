"""Register faults of overloads, and build their broken call forms."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from conformance.subjects.torch_databases import Subject, find

aten = torch.ops.aten


MakeBrokenForms = Callable[[Overload], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Fault:
    """An injected fault of an overload. ``make_broken_forms`` returns the overload's broken call forms: name
    of the form -> function. The check must fail with ``kind``.
    """

    property: str
    overload: str
    dtype: str
    kind: Kind
    make_broken_forms: MakeBrokenForms

    @property
    def name(self) -> str:
        return f"{self.property}-{self.overload}-{self.make_broken_forms.__name__}"


FAULTS: list[Fault] = []


def register_fault(
    property: str, overload: str, dtype: str, kind: Kind
) -> Callable[[MakeBrokenForms], MakeBrokenForms]:
    def register(make_broken_forms: MakeBrokenForms) -> MakeBrokenForms:
        FAULTS.append(Fault(property, overload, dtype, kind, make_broken_forms))
        return make_broken_forms

    return register


def subject_with_fault(fault: Fault) -> Subject:
    """Return the subject of the fault's overload, with the broken call forms."""
    overload: Overload = find("overload", fault.overload).info
    return Subject(
        "overload", fault.overload, dataclasses.replace(overload, **fault.make_broken_forms(overload))
    )


def read_as_dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values that a kernel reads if it ignores the tensor's strides. The values are zeros if the
    kernel would read beyond the storage.
    """
    if tensor.is_contiguous():
        return tensor
    strides = torch.empty(tensor.shape).stride()
    needed = tensor.storage_offset() + tensor.numel()
    if needed * tensor.itemsize > tensor.untyped_storage().nbytes():
        return torch.zeros_like(tensor, memory_format=torch.contiguous_format)
    return tensor.as_strided(tensor.shape, strides, tensor.storage_offset())


def with_offset_zero(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.as_strided(tensor.shape, tensor.stride(), 0)


def add_one_to_result_if(condition: Callable[[torch.Tensor], bool]) -> MakeBrokenForms:
    def make_broken_forms(overload: Overload) -> dict[str, Any]:
        def faulty_op(x: Any, *args: Any, **kwargs: Any) -> Any:
            result = overload.op(x, *args, **kwargs)
            return result + 1 if condition(x) else result

        return {"op": faulty_op}

    return make_broken_forms
