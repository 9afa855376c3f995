"""Make samples whose tensors have the same values in another layout, and check operators on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis
from conformance.oracle.reference import Reference
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import unmodified_info
from conformance.properties.shared.execution import copy_sample_to_device, report_failed_call, run_operator
from conformance.samples.copies import to_device, to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Operators whose result depends on the memory of their argument, not only on its values.
DEFINED_BY_MEMORY = frozenset(
    {
        "as_strided",
        "as_strided.partial_views",
        "as_strided_copy",
        "as_strided_scatter",
        "resize_",
        "resize_as_",
        "empty_like",
    }
)


def with_transformed_tensors(sample: Sample, change: Callable[[torch.Tensor], torch.Tensor]) -> Sample | None:
    """Return the sample with ``change`` applied to a separate copy of each strided tensor.

    The result is None if nothing changed.
    """
    changed = False

    def transformed_leaf(value: Any) -> Any:
        nonlocal changed
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return value
        new = change(value)
        changed |= new is not value
        return new

    host = to_host(sample)
    with torch.no_grad():
        input, args, kwargs = trees.tree_map(transformed_leaf, host.arguments)
    return host.replace(input=input, args=args, kwargs=kwargs) if changed else None


def check_transformed_sample(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    transformed: Sample,
    reference: Reference,
    label: str,
    *,
    forms: Iterable[tuple[str, Callable[..., Any], Callable[..., Any]]] | None = None,
) -> None:
    """Run the operator, or the given forms, on a transformed sample and compare with ``reference``.

    ``reference`` belongs to the transformed sample. If the CPU raises for the transformed sample too, an
    error of the device is not a failure. If the device also raises for ``sample``, which is contiguous, the
    error does not depend on the layout, so the failure has basis parity.
    """
    pairs = list(forms) if forms is not None else [("operator", subject.info.op, unmodified_info(subject).op)]
    for name, form, cpu_form in pairs:
        copy = copy_sample_to_device(target, recorder, transformed)
        if copy is None:
            return
        outcome = run_operator(target, form, copy)
        if outcome.ok:
            compare_outputs(target, recorder, reference, outcome.value, label=f"the {name} of {label}")
            in_place = {index for index, tensor in enumerate(copy.tensors()) if tensor is outcome.value}
            check_unwritten_arguments(
                recorder, transformed, copy, reference.written | in_place, label=f"the {name} of {label}"
            )
            continue
        if cpu_accepts(cpu_form, transformed):
            contradicts = recorder.basis is not Basis.CONSISTENCY or _target_accepts(target, form, sample)
            with recorder.with_basis(recorder.basis if contradicts else Basis.PARITY):
                report_failed_call(target, recorder, transformed, outcome, f"the {name} of {label}")
        else:
            recorder.compared(1)


def _target_accepts(target: Target, op: Callable[..., Any], sample: Sample) -> bool:
    """Return whether the operator raises no error for a sample on the device."""

    def call_on_device() -> bool:
        copy = to_device(sample, target)
        return copy is not None and run_operator(target, op, copy).ok

    return attempt(call_on_device).value is True


def cpu_accepts(op: Callable[..., Any], sample: Sample) -> bool:
    """Return whether the operator raises no error for a sample on the CPU."""

    def call_on_host_copy() -> Any:
        with (
            torch_testing_internals.torch_seeded(0),
            torch_testing_internals.silence_warnings(),
            torch.no_grad(),
        ):
            return to_host(sample).call(op)

    return attempt(call_on_host_copy).ok
