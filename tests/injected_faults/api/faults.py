"""Faults that are injected into the device side of behaviours, which runs on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.behaviours import lab as bench
from conformance.behaviours.lab import Lab
from conformance.framework.trees import tree_map

#: Name of a behaviour -> its own fault, a context manager that breaks a function on the device side. A
#: behaviour needs its own fault only if no general kind of fault affects it. The modules ``faults_*.py`` of
#: this folder add the entries.
NAMED: dict[str, Callable[[Lab], contextlib.AbstractContextManager[Any]]] = {}


def change_first_element(value: Any) -> Any:
    """Change the first element of a tensor in place and return the tensor. Return a number changed, and any
    other value unchanged.
    """
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if not isinstance(value, torch.Tensor) or value.numel() == 0 or value.layout is not torch.strided:
        return value
    if value.is_nested or value.is_quantized or value._is_zerotensor():
        # Nested, quantized and zero tensors have no plain first element in memory to write.
        return value
    with torch.no_grad():
        first = value.as_strided((1,), (1,), value.storage_offset())
        if value.dtype == torch.bool:
            first.logical_not_()
        elif value.is_floating_point() or value.is_complex():
            first.copy_(torch.where(torch.isfinite(first), first * 2 + 1, torch.ones_like(first)))
        else:
            first.copy_(first ^ 1)
    return value


def schema_writes_argument(function: Any) -> bool:
    """Return whether the schema of an operator marks an argument as written."""
    return any(a.alias_info is not None and a.alias_info.is_write for a in function._schema.arguments)


def schema_returns_view(function: Any) -> bool:
    """Return whether the schema of an operator marks its result as a view, and no argument as written."""
    return not schema_writes_argument(function) and any(
        a.alias_info is not None for a in function._schema.arguments
    )


class FaultyOperators(TorchDispatchMode):
    """Dispatch mode in which every operator has the fault ``kind``. Calls by the lab itself stay correct."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if bench.is_lab_working():
            return function(*args, **kwargs)
        if self.kind == "error":
            try:
                return function(*args, **kwargs)
            except Exception:
                return next((a for a in args if isinstance(a, torch.Tensor)), torch.empty(0))
        result = function(*args, **kwargs)
        if self.kind == "alias" and schema_returns_view(function):
            return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, result)
        if self.kind == "value" and not schema_returns_view(function):
            return tree_map(change_first_element, result)
        if not schema_writes_argument(function):
            return tree_map(self.change_metadata, result)
        return result

    def change_metadata(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or leaf.is_nested:
            return leaf
        if self.kind == "dtype":
            return leaf.to(torch.float64 if leaf.dtype != torch.float64 else torch.float32)
        if self.kind == "shape":
            return leaf.unsqueeze(0)
        if self.kind == "stride" and leaf.dim() > 1:
            return leaf.contiguous().mT.contiguous().mT
        return leaf


class LabWithFault(Lab):
    """A lab that drops errors, error messages or warnings, or raises missing-kernel errors instead."""

    kind = ""

    def error(self, error: Exception) -> Exception | None:
        if self.kind == "error":
            return None
        if self.kind == "message":
            return type(error)("something went wrong")
        if self.kind == "refusal":
            return NotImplementedError("Could not run 'aten::any' with arguments from the backend")
        return error

    def warnings(self, caught: Any) -> Any:
        return () if self.kind == "warning" else caught


def lab_class_with_fault(kind: str) -> type[Lab]:
    """Return a subclass of :class:`LabWithFault` with the fault ``kind``."""
    return type("Broken", (LabWithFault,), {"kind": kind})


@contextlib.contextmanager
def inject_operator_fault(lab: Lab, kind: str) -> Iterator[None]:
    """Give every operator on the device side the fault ``kind``. Do nothing if ``kind`` is not a fault of
    operators.
    """
    if kind in ("value", "alias", "dtype", "shape", "stride", "error"):
        with FaultyOperators(kind):
            yield
    else:
        yield
