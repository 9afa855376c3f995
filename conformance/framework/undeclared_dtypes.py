"""Find the undeclared dtypes that a call needs. A call that needs an undeclared dtype is not checked.

A call needs the dtypes of its tensor arguments and outputs, and the dtypes that its arguments name: float64
for ``softmax(x, dtype=torch.float64)``, complex64 for ``fft.rfft`` of float32. A composite operator also
needs the dtypes of the operators inside it: complex64 for ``fft.hfft``. The behaviour of a device in an
undeclared dtype is unspecified, so no property may report it as wrong.
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
#: The dtypes that torch gives to Python numbers.
_NUMBER_DTYPES = (torch.bool, torch.int64, torch.float64, torch.complex128)
#: Attribute that marks tensors which a program has copied to the host.
_ON_HOST = "_copied_to_the_host"
_FACTORIES = ("aten.empty.memory_format",)
_NUMBER_WRAPPERS = ("aten.scalar_tensor.default", "aten.lift_fresh.default")


def dtypes_of(*values: Any) -> frozenset[str]:
    """Return the names of all dtypes in trees of values: dtypes of tensors, and dtypes themselves. A dtype
    that a target cannot declare is ignored.
    """
    dtypes: set[torch.dtype] = set()
    for leaf in trees.leaves(values):
        if isinstance(leaf, torch.dtype):
            dtypes.add(leaf)
        elif isinstance(leaf, torch.Tensor):
            dtypes.add(leaf.dtype)
    return _DECLARABLE & {str(dtype).removeprefix("torch.") for dtype in dtypes}


def declares_all(target: Target) -> bool:
    """Return whether a target declares every dtype that a target can declare."""
    return target.dtypes >= _DECLARABLE


def undeclared_among(target: Target, *values: Any) -> frozenset[str]:
    """Return the names of the dtypes in trees of values that the target does not declare."""
    return frozenset() if declares_all(target) else dtypes_of(*values) - target.dtypes


class _UndeclaredDtypeMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Reports the undeclared dtypes of the tensors that operators receive and return.

    Two kinds of tensors are ignored, because their dtypes are not the choice of the caller:

    * tensors without dimensions that torch makes of Python numbers, next to other tensors or by
      ``scalar_tensor``;
    * tensors without elements that replace a missing result, such as a uint8 tensor in ``batch_norm``.
    """

    supports_higher_order_operators = True

    def __init__(self, target: Target, note: Callable[[frozenset[str]], object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.target = target
        self.note = note

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensor_arguments = trees.tensors((args, kwargs))
        if tensor_arguments and all(hasattr(tensor, _ON_HOST) for tensor in tensor_arguments):
            result = func(*args, **(kwargs or {}))
            for tensor in trees.tensors(result):
                setattr(tensor, _ON_HOST, True)
            return result
        self._report_undeclared(tensor_arguments)
        result = func(*args, **(kwargs or {}))
        if str(func) not in _NUMBER_WRAPPERS:
            may_have_placeholders = isinstance(result, (tuple, list)) or str(func) in _FACTORIES
            self._report_undeclared(
                [t for t in trees.tensors(result) if not (may_have_placeholders and _is_empty_placeholder(t))]
            )
        return result

    def _report_undeclared(self, tensors: list[torch.Tensor]) -> None:
        has_dimensions = any(tensor.dim() for tensor in tensors)
        counted = [t for t in tensors if not (has_dimensions and not t.dim() and t.dtype in _NUMBER_DTYPES)]
        if missing := undeclared_among(self.target, counted):
            self.note(missing)


def _is_empty_placeholder(tensor: torch.Tensor) -> bool:
    return not tensor.is_nested and tensor.shape == (0,)


@contextlib.contextmanager
def _mark_host_tensors() -> Iterator[None]:
    """Mark the tensors that ``Tensor.cpu`` returns. Calls that use only marked tensors run on the host, so
    the device does not need their dtypes.
    """

    def cpu(tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        is_strided = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized
        # A different thread may call this method for device tensors at the same time. These tensors
        # are copied as usual.
        host_tensor = (
            tensor.view_as(tensor)
            if is_strided and tensor.device.type == "cpu"
            else torch._C.TensorBase.cpu(tensor, *args, **options)
        )
        if host_tensor is not tensor:
            setattr(host_tensor, _ON_HOST, True)
        return host_tensor

    torch.Tensor.cpu = cpu  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del torch.Tensor.cpu


def run_on_cpu_and_report_undeclared(
    target: Target, call: Callable[[], Any], report: Callable[[frozenset[str]], object]
) -> CallOutcome:
    """Run ``call`` on the CPU and return its outcome. ``report`` is called with each set of undeclared dtypes
    that an operator of the call needs.
    """
    if declares_all(target):
        return attempt(call)
    with _UndeclaredDtypeMode(target, report), _mark_host_tensors():
        return attempt(call)


def dtypes_declared_for_result(target: Target, result_id: ResultId) -> frozenset[str]:
    """Return the dtype of a result, and the dtypes that the target file lists for the subject of the
    result.
    """
    return target.dtype_overrides.get(result_id.case.subject, frozenset()) | {result_id.dtype}


def undeclared_dtypes_of_call(target: Target, call: Callable[[], Any], *arguments: Any) -> frozenset[str]:
    """Run ``call`` on the CPU and return the undeclared dtypes that the call and its ``arguments`` need."""
    if declares_all(target):
        return frozenset()
    undeclared = set(undeclared_among(target, arguments))
    outcome = run_on_cpu_and_report_undeclared(target, call, undeclared.update)
    return frozenset(undeclared | undeclared_among(target, outcome.value))
