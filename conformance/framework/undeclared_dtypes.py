"""Claims: a target promises something of a call only if it declares every dtype that the call needs.

Those are the dtypes of the tensors that it takes and returns, and those that its arguments name: float64 for
``softmax(x, dtype=torch.float64)``, complex64 for ``fft.rfft`` of float32. A composite operator needs those
of the operators that it is made of as well: complex64 for ``fft.hfft``. What a device does in a dtype that
its target file does not declare is not promised, so that no property may call it wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.framework import trees
from conformance.framework.calls import CallOutcome, attempt
from conformance.model.verdicts import ResultId
from conformance.target.file import DTYPES
from conformance.target.target import Target

_DECLARABLE = frozenset(DTYPES)
#: The dtypes of Python's numbers.
_OF_NUMBERS = (torch.bool, torch.int64, torch.float64, torch.complex128)
#: The attribute of tensors that a program has copied to the host.
_ON_HOST = "_copied_to_the_host"
_MAKES = ("aten.empty.memory_format",)
_WRAP_NUMBERS = ("aten.scalar_tensor.default", "aten.lift_fresh.default")


def dtypes_of(*values: Any) -> frozenset[str]:
    """Return the names of the dtypes that values name or hold, as far as a target can declare them."""
    found: set[torch.dtype] = set()
    for leaf in trees.leaves(values):
        if isinstance(leaf, torch.dtype):
            found.add(leaf)
        elif isinstance(leaf, torch.Tensor):
            found.add(leaf.dtype)
    return _DECLARABLE & {str(dtype).removeprefix("torch.") for dtype in found}


def declares_all(target: Target) -> bool:
    """Return whether a target declares every dtype, so that nothing is left to ask."""
    return target.dtypes >= _DECLARABLE


def unclaimed(target: Target, *values: Any) -> frozenset[str]:
    """Return the names of the dtypes in trees of values that a target does not declare."""
    return frozenset() if declares_all(target) else dtypes_of(*values) - target.dtypes


class _UndeclaredDtypeMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Reports the dtypes that a target does not declare of the tensors that operators take and return.

    Two sorts do not count. Python's numbers come as tensors of no dimensions, in dtypes of their own, beside
    others or from ``scalar_tensor``; and tensors of no elements stand for results that do not exist, as in
    ``batch_norm`` one of uint8 does.
    """

    supports_higher_order_operators = True

    def __init__(self, target: Target, note: Callable[[frozenset[str]], object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.target = target
        self.note = note

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = trees.tensors((args, kwargs))
        if given and all(hasattr(tensor, _ON_HOST) for tensor in given):
            result = func(*args, **(kwargs or {}))
            for tensor in trees.tensors(result):
                setattr(tensor, _ON_HOST, True)
            return result
        self._look(given)
        result = func(*args, **(kwargs or {}))
        if str(func) not in _WRAP_NUMBERS:
            several = isinstance(result, (tuple, list)) or str(func) in _MAKES
            self._look([t for t in trees.tensors(result) if not (several and _is_placeholder(t))])
        return result

    def _look(self, tensors: list[torch.Tensor]) -> None:
        beside = any(tensor.dim() for tensor in tensors)
        held = [t for t in tensors if not (beside and not t.dim() and t.dtype in _OF_NUMBERS)]
        if missing := unclaimed(self.target, held):
            self.note(missing)


def _is_placeholder(tensor: torch.Tensor) -> bool:
    return not tensor.is_nested and tensor.shape == (0,)


@contextlib.contextmanager
def _host_tensors_marked() -> Iterator[None]:
    """Mark what ``Tensor.cpu`` returns: the device has no part in what is computed from it alone."""

    def cpu(tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        plain = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized
        # Tensors of the device, which another thread may hold, are copied as ever.
        found = (
            tensor.view_as(tensor)
            if plain and tensor.device.type == "cpu"
            else torch._C.TensorBase.cpu(tensor, *args, **options)
        )
        if found is not tensor:
            setattr(found, _ON_HOST, True)
        return found

    torch.Tensor.cpu = cpu  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del torch.Tensor.cpu


def watch(target: Target, call: Callable[[], Any], note: Callable[[frozenset[str]], object]) -> CallOutcome:
    """Return the outcome of ``call`` on the CPU.

    Meanwhile ``note`` receives each set of dtypes that an operator needs and the target does not declare.
    """
    if declares_all(target):
        return attempt(call)
    with _UndeclaredDtypeMode(target, note), _host_tensors_marked():
        return attempt(call)


def declared_for(target: Target, result_id: ResultId) -> frozenset[str]:
    """Return the dtypes that a target declares for the subject of a result alone, and that of the result."""
    return target.dtype_overrides.get(result_id.case.subject, frozenset()) | {result_id.dtype}


def undeclared_dtypes_of_call(target: Target, call: Callable[[], Any], *arguments: Any) -> frozenset[str]:
    """Return the dtypes that a call on the CPU needs and the target does not declare."""
    if declares_all(target):
        return frozenset()
    found = set(unclaimed(target, arguments))
    outcome = watch(target, call, found.update)
    return frozenset(found | unclaimed(target, outcome.value))
