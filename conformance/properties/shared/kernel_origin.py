"""Look up in torch's dispatch table which kernel a backend runs for an overload, and run torch's composite
kernels on the CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.model.verdicts import Placement

_COMPOSITES = (
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
)


def has_kernel(name: str, key: str) -> bool:
    """Return whether an overload has a kernel that is registered for a dispatch key."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


@functools.cache
def composite_key(name: str, key: str) -> torch._C.DispatchKey | None:
    """Return the key of torch's composite kernel that an overload runs on a backend.

    ``key`` is the dispatch key of the backend. The result is None if the overload runs another kernel.
    """
    try:
        if not key or has_kernel(name, key):
            return None
        composite_name = next((composite for composite in _COMPOSITES if has_kernel(name, composite)), None)
    except RuntimeError:
        return None
    return None if composite_name is None else getattr(torch._C.DispatchKey, composite_name)


@functools.cache
def placement_by_dispatch_table(name: str, key: str) -> Placement:
    """Return the placement of an overload that is not composite.

    The placement is NATIVE if the dispatch table has a kernel for ``key``, and FALLBACK if it does not. It is
    UNKNOWN if ``key`` is empty or the table does not contain the overload.
    """
    if not key:
        return Placement.UNKNOWN
    try:
        return Placement.NATIVE if has_kernel(name, key) else Placement.FALLBACK
    except RuntimeError:
        return Placement.UNKNOWN


def args_with_wrapped_numbers(func: Any, args: Sequence[Any]) -> list[Any]:
    """Return the arguments, with tensors in place of numbers if the schema requires tensors.

    A dispatch mode receives a number in place of a tensor that wraps a Python number.
    """
    return [
        torch.scalar_tensor(value, dtype=torch.result_type(value, value))
        if isinstance(value, int | float | complex) and str(argument.type) == "Tensor"
        else value
        for argument, value in zip(func._schema.arguments, args, strict=False)
    ]


def dispatch_name_of(func: Any) -> str:
    """Return the name of an overload in the dispatch table, such as ``aten::add.Tensor``."""
    suffix = f".{func._overloadname}" if func._overloadname != "default" else ""
    return f"{func._schema.name}{suffix}"


class CompositeKernelsMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that runs composite kernels of torch in place of CPU kernels, as a backend does.

    ``key`` is the dispatch key of the backend. ``has_replaced`` is true after the first replaced CPU kernel.
    """

    def __init__(self, key: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.has_replaced = False
        self._key = key
        self._open: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, keywords = dispatch_name_of(func), kwargs or {}
        composite = composite_key(name, self._key)
        # The functional form of a structured operator only calls its out= form and computes nothing itself.
        is_wrapper = composite is torch._C.DispatchKey.CompositeExplicitAutogradNonFunctional
        if composite is None or is_wrapper or name in self._open:
            return func(*args, **keywords)
        # If the CPU has no kernel of its own, it runs the composite kernel too, so nothing is replaced.
        # Replace anyway, because the kernels that the composite kernel calls may differ.
        self.has_replaced |= has_kernel(name, "CPU")
        self._open.append(name)
        try:
            with self:
                return func._op_dk(composite, *args_with_wrapped_numbers(func, args), **keywords)
        finally:
            self._open.pop()
