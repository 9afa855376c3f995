"""The kernels that a call runs, as the dispatcher of the CPU shows them."""

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

#: Operators that look at values to raise an error for them; on a device they need the host.
_CHECKING = frozenset({"_linalg_check_errors", "_assert_async", "equal", "is_nonzero", "allclose"})
#: Operators that fill or allocate memory; a call that runs nothing else computes nothing.
_ALLOCATING = frozenset({"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "resize"})


@functools.cache
def base_name(name: str) -> str:
    """Return ``add`` for ``aten::add.Tensor``, ``aten::add_.Tensor`` and ``aten::add.out``."""
    bare = name.rpartition("::")[2].partition(".")[0]
    return bare.rstrip("_") if not bare.endswith("__") else bare


@dataclasses.dataclass
class Kernels:
    """``recordable``: kernels that a graph can hold; ``host``: those for which the host needs a value or
    shape.
    """

    recordable: set[str] = dataclasses.field(default_factory=set)
    host: set[str] = dataclasses.field(default_factory=set)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels = Kernels()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = base_name(func._schema.name)
        if needs_host(func, args):
            self.kernels.host.add(name)
        elif name not in _ALLOCATING and not is_view(func):
            strided = all(t.layout is torch.strided for t in trees.tensors((args, kwargs or {}, result)))
            if strided:
                self.kernels.recordable.add(name)
        return result


def is_view(func: Any) -> bool:
    """Return whether an overload returns a view of an argument by its schema."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


def needs_host(func: Any, args: Any = ()) -> bool:
    """Return whether an overload can return only after the host knows values: for a shape, a number or an
    error.
    """
    if base_name(func._schema.name) in ("index", "_unsafe_index"):
        # Tagged for the sake of masks; with numbers for indices the shape is known.
        return any(t.dtype in (torch.bool, torch.uint8) for t in trees.tensors(args[1:2]))
    tags = set(getattr(func, "tags", ()))
    if {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & tags:
        return True
    return base_name(func._schema.name) in _CHECKING


def kernels_of(op: Callable[..., Any], sample: Sample) -> Kernels | None:
    """Return the kernels that a call runs on the CPU; None if the CPU raises."""
    host = to_host(sample)
    with torch.no_grad():
        return kernels_in(lambda: host.call(op))


def kernels_in(work: Callable[[], Any]) -> Kernels | None:
    """Return the kernels that some work runs on the CPU; None if it raises."""
    watch = _Watch()
    try:
        with torch_testing_internals.torch_seeded(0), torch_testing_internals.quiet(), watch:
            work()
    except Exception:
        return None
    return watch.kernels


def asks_host(work: Callable[[], Any]) -> frozenset[str]:
    """Return the names of the kernels run on the CPU for which the host needs values, nested ones too.

    By the profiler: some formulas avoid the host while a dispatch mode is active. Empty if the work fails.
    """
    try:
        with (
            torch_testing_internals.torch_seeded(0),
            torch_testing_internals.quiet(),
            torch_testing_internals.operators_run() as names,
        ):
            work()
    except Exception:
        return frozenset()
    return frozenset(name for name in map(base_name, names) if _host_by_name(name))


@functools.cache
def _host_by_name(name: str) -> bool:
    if name in _CHECKING:
        return True
    if name in ("index", "_unsafe_index"):
        return False  # a mask shows by the nonzero that it takes
    packet = getattr(torch.ops.aten, name, None)
    overloads = packet.overloads() if packet is not None and hasattr(packet, "overloads") else []
    functions = [getattr(packet, overload) for overload in overloads]
    return bool(functions) and all(needs_host(func) for func in functions if "out" not in func._overloadname)
