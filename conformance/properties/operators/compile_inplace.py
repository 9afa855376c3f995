"""Property: compiled in-place calls write to their input."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.storages import address_of
from conformance.model.verdicts import Kind
from conformance.oracle.reference import Reference
from conformance.properties import mode_exclusions
from conformance.properties.operators import _compiled_calls
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import first_dtypes, unmodified_info
from conformance.properties.shared.execution import copy_sample_to_device
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 2


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not callable(subject.info.inplace_variant):
        return []
    if not _compiled_calls.can_be_captured_by_dynamo(subject) or _compiled_calls.is_seeded(subject):
        return []  # the property compile_random checks operators that draw random numbers in place
    if changes_metadata(subject.info.name) or subject.name in mode_exclusions.exclusion_reasons(
        "compile", "no_inplace_graph"
    ):
        return []
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool"), 2)


def changes_metadata(name: str) -> bool:
    """Return whether the in-place form changes the shape or strides of its input, as ``t_`` does.

    A graph must not change the metadata of its inputs.
    """
    packet = getattr(torch.ops.aten, name.rpartition(".")[2] + "_", None)
    overloads = packet.overloads() if packet is not None and hasattr(packet, "overloads") else []
    return any(torch.Tag.inplace_view in getattr(packet, overload).tags for overload in overloads)


def result_fits_input(sample: Sample, reference: Reference) -> bool:
    """Return whether the result has the shape and the dtype of the first input."""
    first_input, result = sample.input, reference.outputs
    return (
        isinstance(first_input, torch.Tensor)
        and isinstance(result, torch.Tensor)
        and first_input.layout is torch.strided
        and result.dtype == first_input.dtype
        and result.shape == first_input.shape
    )


@register(
    "compile_inplace",
    subject_kind="operator",
    statement="Compiled, the in-place form returns its input in the same memory, with the reference values.",
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="The compiled in-place form must change the same tensor, to the same values, as the eager form",
    level="core",
    applies=dtypes_to_check,
    capabilities=("compile", "inplace"),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the compiled in-place form. Check that it returns its input, and compare the input with the
    reference.
    """
    compiler = _compiled_calls.CompiledCallRunner(target, recorder)
    fitting = 0
    for sample, reference in _compiled_calls.varied_samples_with_references(
        target, subject, recorder, 2 * LIMIT
    ):
        if not result_fits_input(sample, reference) or fitting == LIMIT:
            continue
        fitting += 1
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        input_on_device, address = copy.input, address_of(copy.input)
        form, cpu_form = subject.info.inplace_variant, unmodified_info(subject).inplace_variant
        first_copy = copy_sample_to_device(target, recorder, sample)
        outcome = compiler.call_without_gradients(
            sample, copy, form, cpu_form, first_copy=first_copy, label="the compiled in-place form"
        )
        if outcome is None:
            continue
        index = sample.index
        same = outcome.value is input_on_device
        fact(recorder, same, Kind.ALIASING, "the compiled form does not return its input.", sample=index)
        message = "the compiled form has moved its input to other memory."
        fact(recorder, address_of(input_on_device) == address, Kind.ALIASING, message, sample=index)
        label = "the input after the compiled in-place form"
        compare_outputs(target, recorder, reference, input_on_device, label=label)
    if fitting:
        compiler.require_evidence()
    else:
        recorder.note("no sample has a result that fits into its input")
        recorder.compared(1)
