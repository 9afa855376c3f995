"""The observed placement of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance import torch_testing_internals
from conformance.framework.calls import is_refusal
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind, Placement
from conformance.properties.operators import _kernel_origin
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import cases, copy_in, report_failed_call, run
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The first sample of many operators has no elements, for which kernels do nothing.
LIMIT = 4


class Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the overloads that reach the backend, and whether one copied a tensor to the CPU.

    A composite kernel, torch's own, is opened: what it calls decides. The functional overload of a structured
    operator calls the ``out=`` overload, which a backend without a kernel answers with its fallback.
    """

    def __init__(self, device: str, key: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = torch.device(device).type
        self.key = key
        self.names: list[str] = []
        self.composite = False
        self.copied_out = False
        self._open: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name + (f".{func._overloadname}" if func._overloadname != "default" else "")
        composite = _kernel_origin.composite_key(name, self.key)
        given, named = _tensors_for(func, args), kwargs or {}
        if composite is None:
            result = func(*given, **named)
            self.names.append(name)
        elif name in self._open:  # a composite kernel that calls itself, or is called for one of its tensors
            result = func(*given, **named)
        else:
            self.composite = True
            self._open.append(name)
            try:
                with self:
                    result = func._op_dk(composite, *given, **named)
            finally:
                self._open.pop()
        if func._schema.name in ("aten::_to_copy", "aten::copy_") and isinstance(result, torch.Tensor):
            sources = [arg for arg in args if isinstance(arg, torch.Tensor)]
            self.copied_out |= result.device.type == "cpu" and any(
                s.device.type == self.device for s in sources
            )
        return result


def _tensors_for(func: Any, args: Sequence[Any]) -> list[Any]:
    """Return arguments with tensors for the numbers to which a mode turns the tensors of Python's numbers."""
    return [
        torch.scalar_tensor(value, dtype=torch.result_type(value, value))
        if isinstance(value, int | float | complex) and str(argument.type) == "Tensor"
        else value
        for argument, value in zip(func._schema.arguments, args, strict=False)
    ]


#: An operator is placed as the worst of its calls, and as refused if all are.
_ORDER = (
    Placement.FALLBACK,
    Placement.UNKNOWN,
    Placement.COMPOSITE,
    Placement.NATIVE,
    Placement.REFUSED,
)


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.name.startswith("sparse."):
        return []  # their kernels have the keys of sparse layouts
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool", "float64"))


@register(
    "placement",
    subject_kind="operator",
    statement=(
        "The place at which the operator runs is observed; it is not the CPU unless the target declares a "
        "fallback."
    ),
    documentation="accelerator/operators.html",
    level="full",
    applies=applies,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    seen: list[Placement] = []
    for sample, _ in cases(target, subject, recorder, LIMIT):
        copy = copy_in(target, recorder, sample)
        if copy is None:
            continue
        before = target.fallbacks()
        calls = Calls(target.device, torch_testing_internals.dispatch_key(target.device))
        with calls:
            outcome = run(target, subject.info.op, copy)
        if not outcome.ok:
            assert outcome.error is not None
            if is_refusal(outcome.error):
                seen.append(Placement.REFUSED)
            report_failed_call(target, recorder, sample, outcome)
            continue
        after = target.fallbacks()
        counted = 0 if before is None or after is None else after - before
        placement = _observed(target, calls, counted, before is not None)
        seen.append(placement)
        message = (
            f"the operator ran on the CPU ({counted or 'by the dispatch table'} fallbacks) although the "
            "target declares no fallback."
        )
        allowed = placement is not Placement.FALLBACK or (
            "cpu_fallback" in target.capabilities and target.capable("cpu_fallback")
        )
        fact(recorder, allowed, Kind.PLACEMENT, message, sample=sample.index)
        if placement is Placement.UNKNOWN:
            recorder.note("the place at which the operator runs cannot be observed")
    if seen:
        recorder.placement(min(seen, key=_ORDER.index))


def _observed(target: Target, calls: Calls, counted: int, countable: bool) -> Placement:
    if counted > 0:
        return Placement.FALLBACK
    seen = {_kernel_origin.placed(name, calls.key) for name in calls.names}
    if countable:
        # The target counts its own fallbacks: a call that it did not count and that has no entry ran in its
        # catch-all kernel.
        seen = {Placement.NATIVE if place is Placement.FALLBACK else place for place in seen}
    if calls.copied_out and not target.is_cpu:
        seen.add(Placement.UNKNOWN)
    if calls.composite or not calls.names:
        seen.add(Placement.COMPOSITE)
    return min(seen, key=_ORDER.index)
