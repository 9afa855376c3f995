"""Property: an operator does not run on the CPU unless the target declares a fallback."""

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
from conformance.properties.shared import kernel_origin
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    samples_with_references,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The number of samples that are checked. One sample is not enough, because the first sample of many
#: operators has no elements.
LIMIT = 4


class DispatchedCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the overloads that reach the backend, and whether a call copied a tensor to the CPU.

    If an overload runs a composite kernel of torch, the overloads that the kernel calls are recorded instead.
    For example, the functional overload of a structured operator calls the ``out=`` overload. A backend
    without a kernel for the ``out=`` overload runs the backend's fallback.
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
        name = kernel_origin.dispatch_name_of(func)
        composite = kernel_origin.composite_key(name, self.key)
        arguments, keywords = kernel_origin.args_with_wrapped_numbers(func, args), kwargs or {}
        if composite is None:
            result = func(*arguments, **keywords)
            self.names.append(name)
        elif name in self._open:  # the composite kernel of the overload calls the overload itself
            result = func(*arguments, **keywords)
        else:
            self.composite = True
            self._open.append(name)
            try:
                with self:
                    result = func._op_dk(composite, *arguments, **keywords)
            finally:
                self._open.pop()
        if func._schema.name in ("aten::_to_copy", "aten::copy_") and isinstance(result, torch.Tensor):
            sources = [arg for arg in args if isinstance(arg, torch.Tensor)]
            self.copied_out |= result.device.type == "cpu" and any(
                s.device.type == self.device for s in sources
            )
        return result


#: Placements from worst to best. The placement of an operator is the worst placement of the calls that the
#: device accepts, or REFUSED if the device refuses every call.
_ORDER = (
    Placement.FALLBACK,
    Placement.UNKNOWN,
    Placement.COMPOSITE,
    Placement.NATIVE,
    Placement.REFUSED,
)


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if subject.name.startswith("sparse."):
        return []  # kernels of sparse layouts have other dispatch keys
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool", "float64"))


@register(
    "placement",
    subject_kind="operator",
    statement=(
        "The placement of the operator is observed. The operator does not run on the CPU unless the target "
        "declares a fallback."
    ),
    documentation="accelerator/operators.html",
    basis="consistency",
    ground="The operator must run in the place that the target file declares",
    level="full",
    applies=dtypes_to_check,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Record the overloads that a call dispatches and require that none is an undeclared CPU fallback."""
    placements: list[Placement] = []
    for sample, _ in samples_with_references(target, subject, recorder, LIMIT):
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        before = target.fallbacks()
        calls = DispatchedCalls(target.device, torch_testing_internals.dispatch_key(target.device))
        with calls:
            outcome = run_operator(target, subject.info.op, copy)
        if not outcome.ok:
            assert outcome.error is not None
            if is_refusal(outcome.error):
                placements.append(Placement.REFUSED)
            report_failed_call(target, recorder, sample, outcome)
            continue
        after = target.fallbacks()
        counted = 0 if before is None or after is None else after - before
        placement = _placement_of(target, calls, counted, before is not None)
        placements.append(placement)
        message = (
            f"the operator ran on the CPU (fallbacks: {counted or 'in the dispatch table'}) although the "
            "target declares no fallback."
        )
        allowed = placement is not Placement.FALLBACK or (
            "cpu_fallback" in target.capabilities and target.capable("cpu_fallback")
        )
        fact(recorder, allowed, Kind.PLACEMENT, message, sample=sample.index)
        if placement is Placement.UNKNOWN:
            recorder.note("the placement of the operator cannot be observed")
    if placements:
        recorder.placement(min(placements, key=_ORDER.index))


def _placement_of(
    target: Target, calls: DispatchedCalls, fallback_count: int, target_counts_fallbacks: bool
) -> Placement:
    if fallback_count > 0:
        return Placement.FALLBACK
    placements = {kernel_origin.placement_by_dispatch_table(name, calls.key) for name in calls.names}
    if target_counts_fallbacks:
        # The target counts its fallbacks. A call without an entry in the dispatch table that was not counted
        # as a fallback ran in a kernel that the backend registers for all operators, so it is native.
        placements = {
            Placement.NATIVE if placement is Placement.FALLBACK else placement for placement in placements
        }
    if calls.copied_out and not target.is_cpu:
        placements.add(Placement.UNKNOWN)
    if calls.composite or not calls.names:
        placements.add(Placement.COMPOSITE)
    return min(placements, key=_ORDER.index)
