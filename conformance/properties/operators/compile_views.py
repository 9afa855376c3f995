"""Property: compiled calls compute correctly on strided inputs, and views share the memory of their base."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt
from conformance.framework.compare import compare_exact, compare_metadata, fact, to_host_tensor
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.storages import share_storage
from conformance.model.verdicts import Basis, Kind
from conformance.properties.operators import _compiled_calls
from conformance.properties.operators._transformed_samples import (
    DEFINED_BY_MEMORY,
    cpu_accepts,
    with_transformed_tensors,
)
from conformance.properties.operators.layout import with_gaps, with_offset, with_reversed_strides
from conformance.properties.operators.views import may_alias
from conformance.properties.shared.basis import basis_of_aliasing
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import copy_sample_to_device
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

LIMIT = 3


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not _compiled_calls.can_be_captured_by_dynamo(subject):
        return []
    if subject.name in DEFINED_BY_MEMORY and not may_alias(subject.info.name):
        return []
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool"))


@register(
    "compile_views",
    subject_kind="operator",
    statement=(
        "Compiled, the operator gives the reference values for strided inputs at an offset; views share "
        "memory with their base, even if the graph writes to them."
    ),
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="A compiled view must alias its input, and writes must reach the input, as for an eager view",
    level="core",
    applies=dtypes_to_check,
    capabilities=("compile", "views"),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the compiled operator on strided inputs, or write to its views; compare values and aliasing."""
    compiler = _compiled_calls.CompiledCallRunner(target, recorder)
    if may_alias(subject.info.name):
        _check_view_outputs(target, subject, recorder, compiler)
    elif not _check_strided_inputs(target, subject, recorder, compiler):
        recorder.note("the operator has no tensor argument that could have another layout")
        recorder.compared(1)
        return
    compiler.require_evidence()


def with_transposed_gaps_or_offset(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that is transposed and has gaps or, for fewer than two dimensions, is at an offset."""
    return with_gaps(with_reversed_strides(tensor)) if tensor.dim() > 1 else with_offset(tensor)


def _check_strided_inputs(
    target: Target, subject: Subject, recorder: Recorder, compiler: _compiled_calls.CompiledCallRunner
) -> bool:
    """Check the first sample that can have strided inputs.

    Return False if no sample can have strided inputs and no failure was recorded.
    """
    cpu_operator = _compiled_calls.unseeded_operator(find("operator", subject.name))
    for sample, reference in _compiled_calls.varied_samples_with_references(target, subject, recorder, LIMIT):
        transformed_sample = with_transformed_tensors(sample, with_transposed_gaps_or_offset)
        copy = (
            None
            if transformed_sample is None
            else copy_sample_to_device(target, recorder, transformed_sample)
        )
        if transformed_sample is None or copy is None:
            continue
        if not cpu_accepts(cpu_operator, transformed_sample):
            continue
        label = "the compiled operator on strided inputs"
        first_copy = copy_sample_to_device(target, recorder, transformed_sample)
        outcome = compiler.call_without_gradients(
            transformed_sample,
            copy,
            _compiled_calls.unseeded_operator(subject),
            cpu_operator,
            first_copy=first_copy,
            label=label,
        )
        if outcome is not None:
            label = "the compiled result of strided inputs"
            compare_outputs(target, recorder, reference, outcome.value, label=label)
        return True
    return recorder.failed


def with_write_to_results(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``op`` and then fills its results with ones, in the same graph."""

    def call_and_fill_results(*args: Any, **kwargs: Any) -> Any:
        result = op(*args, **kwargs)
        for part in result if isinstance(result, (tuple, list)) else (result,):
            part.fill_(1)
        return result

    return call_and_fill_results


def _has_no_overlapping_elements(tensor: torch.Tensor) -> bool:
    """Return whether no two elements share memory, so that the tensor can be written."""
    if tensor.layout is not torch.strided:
        return False
    positions = torch.arange(tensor.untyped_storage().nbytes() // tensor.itemsize)
    element_positions = positions.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return not tensor.numel() or int(torch.bincount(element_positions.flatten()).max()) == 1


def _check_view_outputs(
    target: Target, subject: Subject, recorder: Recorder, compiler: _compiled_calls.CompiledCallRunner
) -> None:
    cpu_operator = _compiled_calls.unseeded_operator(find("operator", subject.name))
    # Functionalization models only the memory that the elements of an argument cover. Writes to the results
    # of operators that use other memory are therefore not checked.
    about_memory = subject.name in DEFINED_BY_MEMORY
    for sample, reference in _compiled_calls.varied_samples_with_references(
        target, subject, recorder, 3 * LIMIT
    ):
        if compiler.graph_call_count == LIMIT:
            break
        first_input = sample.input
        strided = (
            isinstance(first_input, torch.Tensor)
            and first_input.layout is torch.strided
            and bool(first_input.numel())
        )
        host = to_host(sample)
        reference_call = attempt(lambda host=host: host.call(with_write_to_results(cpu_operator)))  # type: ignore[misc]
        results = trees.tensors(reference.outputs)
        if (
            not strided
            or not reference_call.ok
            or not results
            or not all(map(_has_no_overlapping_elements, results))
            or about_memory
        ):
            # Some results cannot be written, for example numbers, or tensors whose elements share memory.
            # Compare only their values.
            copy = copy_sample_to_device(target, recorder, sample)
            if copy is not None:
                first_copy = copy_sample_to_device(target, recorder, sample)
                outcome = compiler.call_without_gradients(
                    sample,
                    copy,
                    _compiled_calls.unseeded_operator(subject),
                    cpu_operator,
                    first_copy=first_copy,
                )
                if outcome is not None:
                    compare_outputs(target, recorder, reference, outcome.value)
            continue
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        label = "the compiled operator with a write to its result"
        writing_operator = with_write_to_results(_compiled_calls.unseeded_operator(subject))
        first_copy = copy_sample_to_device(target, recorder, sample)
        outcome = compiler.call_without_gradients(
            sample,
            copy,
            writing_operator,
            with_write_to_results(cpu_operator),
            first_copy=first_copy,
            label=label,
        )
        if outcome is not None:
            _compare_written_views(recorder, sample, host, copy, reference_call.value, outcome.value)


def _compare_written_views(
    recorder: Recorder, sample: Sample, host: Sample, copy: Sample, expected: Any, actual: Any
) -> None:
    index = sample.index
    for output_index, (expected_output, actual_output) in enumerate(
        zip(trees.tensors(expected), trees.tensors(actual), strict=False)
    ):
        shared, is_shared = (
            share_storage(expected_output, host.input),
            share_storage(actual_output, copy.input),
        )
        difference = "shares no memory" if shared else "shares memory"
        message = f"compiled, output {output_index} {difference} with the input, unlike on the CPU."
        if is_shared is not None:
            aliasing = basis_of_aliasing(recorder.id.case.subject)
            basis = aliasing if aliasing is Basis.PARITY else recorder.basis
            fact(recorder, shared == is_shared, Kind.ALIASING, message, sample=index, basis=basis)
        if shared and is_shared is not False:
            compare_metadata(
                recorder,
                actual_output,
                expected_output,
                label=f"output {output_index}",
                sample=index,
                stride=True,
            )
    label = "the input after a compiled write to its view"
    compare_exact(recorder, copy.input, to_host_tensor(host.input), label=label, sample=index)
