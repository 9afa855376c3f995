"""Run a call on the CPU and record the names of the kernels that torch dispatches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample

#: Operators that read values to raise an error. On a device, the host must wait for these values.
_VALUE_CHECKS = frozenset({"_linalg_check_errors", "_assert_async", "equal", "is_nonzero", "allclose"})
#: Operators that only allocate or fill memory. A call that runs no other operator computes nothing.
_ALLOCATING = frozenset({"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "resize"})


@functools.cache
def base_name(name: str) -> str:
    """Return the operator name without namespace, overload and in-place suffix.

    Example: ``add`` for ``aten::add.Tensor``, ``aten::add_.Tensor`` and ``aten::add.out``.
    """
    bare = name.rpartition("::")[2].partition(".")[0]
    return bare.rstrip("_") if not bare.endswith("__") else bare


@dataclasses.dataclass
class KernelNames:
    """Names of the kernels that a call runs.

    ``recordable`` kernels can be part of a captured graph. A ``host`` kernel reads tensor values on the host
    before it returns, to determine a shape, a Python number or an error. Views and allocations are in neither
    set.
    """

    recordable: set[str] = dataclasses.field(default_factory=set)
    host: set[str] = dataclasses.field(default_factory=set)


class _KernelRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels = KernelNames()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = base_name(func._schema.name)
        if needs_values_on_host(func, args):
            self.kernels.host.add(name)
        elif name not in _ALLOCATING and not returns_view(func):
            strided = all(t.layout is torch.strided for t in trees.tensors((args, kwargs or {}, result)))
            if strided:
                self.kernels.recordable.add(name)
        return result


def returns_view(func: Any) -> bool:
    """Return whether the schema of an overload declares that the overload returns a view of an argument."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


def needs_values_on_host(func: Any, args: Any = ()) -> bool:
    """Return whether the host must read tensor values before the overload can return.

    The host must read the values if a shape, a returned Python number or an error depends on them.
    """
    if base_name(func._schema.name) in ("index", "_unsafe_index"):
        # ``index`` has the tag ``dynamic_output_shape``, which is true only for boolean masks. With integer
        # indices, the shape does not depend on values.
        return any(t.dtype in (torch.bool, torch.uint8) for t in trees.tensors(args[1:2]))
    tags = set(getattr(func, "tags", ()))
    if {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & tags:
        return True
    return base_name(func._schema.name) in _VALUE_CHECKS


def kernels_of(op: Callable[..., Any], sample: Sample) -> KernelNames | None:
    """Return the kernels that a call runs on the CPU, or None if the call raises an exception."""
    host = to_host(sample)
    with torch.no_grad():
        return kernels_run_by(lambda: host.call(op))


def kernels_run_by(function: Callable[[], Any]) -> KernelNames | None:
    """Return the kernels that ``function`` runs on the CPU, or None if ``function`` raises an exception."""
    recorder = _KernelRecorder()
    try:
        with torch_testing_internals.torch_seeded(0), torch_testing_internals.silence_warnings(), recorder:
            function()
    except Exception:
        return None
    return recorder.kernels


def kernels_needing_host(function: Callable[[], Any]) -> frozenset[str]:
    """Run ``function`` on the CPU and return the names of its kernels, including nested kernels, that read
    tensor values on the host.

    The names come from the profiler. A dispatch mode would change the result: some formulas do not read
    values on the host while a dispatch mode is active. The result is empty if ``function`` raises an
    exception.
    """
    try:
        with (
            torch_testing_internals.torch_seeded(0),
            torch_testing_internals.silence_warnings(),
            torch_testing_internals.record_operator_names() as names,
        ):
            function()
    except Exception:
        return frozenset()
    return frozenset(name for name in map(base_name, names) if _needs_values_on_host_by_name(name))


@functools.cache
def _needs_values_on_host_by_name(name: str) -> bool:
    if name in _VALUE_CHECKS:
        return True
    if name in ("index", "_unsafe_index"):
        return False  # indexing with a mask also runs nonzero, and nonzero is recorded
    packet = getattr(torch.ops.aten, name, None)
    overloads = packet.overloads() if packet is not None and hasattr(packet, "overloads") else []
    functions = [getattr(packet, overload) for overload in overloads]
    return bool(functions) and all(
        needs_values_on_host(func) for func in functions if "out" not in func._overloadname
    )
