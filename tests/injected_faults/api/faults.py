"""Faults of a device, planted into the device's side of behaviours that run on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.behaviours import lab as bench
from conformance.behaviours.lab import Lab
from conformance.framework.trees import tree_map

#: Faults by the name of a behaviour that the general ones do not reach: context managers that break
#: something on the device's side. Modules ``faults_*.py`` beside this one add theirs.
NAMED: dict[str, Callable[[Lab], contextlib.AbstractContextManager[Any]]] = {}


def wrong(value: Any) -> Any:
    """The same with its first element changed."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if not isinstance(value, torch.Tensor) or value.numel() == 0 or value.layout is not torch.strided:
        return value
    if value.is_nested or value.is_quantized or value._is_zerotensor():
        # Of these the last has no memory: zeros as tangents are made so.
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


def writes(function: Any) -> bool:
    """True if an operator changes an argument."""
    return any(a.alias_info is not None and a.alias_info.is_write for a in function._schema.arguments)


def is_view(function: Any) -> bool:
    """True if an operator's result is part of an argument that it does not change."""
    return not writes(function) and any(a.alias_info is not None for a in function._schema.arguments)


class Faulty(TorchDispatchMode):
    """A device whose every operator is wrong in one way; what the lab does for itself is left alone."""

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
        found = function(*args, **kwargs)
        if self.kind == "alias" and is_view(function):
            return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, found)
        if self.kind == "value" and not is_view(function):
            return tree_map(wrong, found)
        if not writes(function):
            return tree_map(self.bent, found)
        return found

    def bent(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or leaf.is_nested:
            return leaf
        if self.kind == "dtype":
            return leaf.to(torch.float64 if leaf.dtype != torch.float64 else torch.float32)
        if self.kind == "shape":
            return leaf.unsqueeze(0)
        if self.kind == "stride" and leaf.dim() > 1:
            return leaf.contiguous().mT.contiguous().mT
        return leaf


class BrokenLab(Lab):
    """A lab on which errors, their texts or warnings do not come through."""

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


def lab_with(kind: str) -> type[Lab]:
    """A lab class with one of the faults that :class:`BrokenLab` knows."""
    return type("Broken", (BrokenLab,), {"kind": kind})


@contextlib.contextmanager
def around(lab: Lab, kind: str) -> Iterator[None]:
    """Around the device's side: every operator wrong in one way."""
    if kind in ("value", "alias", "dtype", "shape", "stride", "error"):
        with Faulty(kind):
            yield
    else:
        yield
