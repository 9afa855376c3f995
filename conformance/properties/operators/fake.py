"""Property: fake tensors predict the metadata of the device's results."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt, one_line, report_error
from conformance.framework.compare import compare_leaf_counts, compare_metadata, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    samples_with_references,
)
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool", "float64"), 2)


@register(
    "fake",
    subject_kind="operator",
    statement=("Fake tensors predict the shape, dtype, layout, strides and aliasing of the real result."),
    documentation="user_guide/torch_compiler/torch.compiler_fake_tensor.html",
    level="core",
    applies=dtypes_to_check,
    capabilities=(
        "fake_tensors",
        "storage",
    ),
    runs=False,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator on the device and on fake tensors, and compare metadata and aliasing."""
    unpredictable = torch_testing_internals.dynamic_output_errors()
    for sample, _ in samples_with_references(target, subject, recorder, LIMIT):
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        outcome = run_operator(target, subject.info.op, copy)
        if not outcome.ok:
            report_failed_call(target, recorder, sample, outcome)
            continue
        second_copy = copy_sample_to_device(target, recorder, sample)
        if second_copy is None:
            continue
        predicted = attempt(functools.partial(predict_with_fake_tensors, subject.info.op, second_copy))
        if not predicted.ok:
            assert predicted.error is not None
            if recorder.lacking:
                with recorder.with_basis(Basis.PARITY):
                    label = "the call with fake tensors"
                    report_error(target, recorder, predicted.error, label=label, sample=sample.index)
                continue
            refused = isinstance(predicted.error, unpredictable) or depends_on_values(predicted.error)
            message = f"fake tensors raise {one_line(predicted.error)}, but the device has a result."
            fact(recorder, refused, Kind.EXCEPTION, message, sample=sample.index, basis=Basis.PARITY)
            continue
        fake_sample, predicted_result = predicted.value
        _compare_metadata_and_aliasing(recorder, sample, copy, outcome.value, fake_sample, predicted_result)


def depends_on_values(error: Exception) -> bool:
    """Return whether fake tensors raised an error because the metadata of the result depends on values."""
    text = str(error)
    return "data-dependent" in text or "data dependent" in text or "DataDependent" in type(error).__name__


def predict_with_fake_tensors(op: Callable[..., Any], sample: Sample) -> tuple[Sample, Any]:
    """Return the sample with fake tensors, and the operator's result for these tensors."""
    mode = torch_testing_internals.fake_tensor_mode()

    def fake_leaf(value: Any) -> Any:
        return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

    input, args, kwargs = trees.tree_map(fake_leaf, sample.arguments)
    fake_sample = sample.replace(input=input, args=args, kwargs=kwargs)
    with mode, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return fake_sample, fake_sample.call(op)


def _compare_metadata_and_aliasing(
    recorder: Recorder, sample: Sample, real: Sample, actual: Any, fake: Sample, predicted_result: Any
) -> None:
    index = sample.index
    if not compare_leaf_counts(recorder, actual, predicted_result, label="the result", sample=index):
        return
    for output_index, (actual_output, predicted_output) in enumerate(
        zip(trees.leaves(actual), trees.leaves(predicted_result), strict=False)
    ):
        label = f"output {output_index}, compared with its fake tensor,"
        if not isinstance(predicted_output, torch.Tensor) or not isinstance(actual_output, torch.Tensor):
            recorder.compared(1)
            continue
        if not compare_metadata(
            recorder,
            actual_output,
            predicted_output,
            label=label,
            sample=index,
            stride=True,
            device=predicted_output.device,
        ):
            continue
        if predicted_output.layout is torch.strided:
            aliased = _aliased_arguments(real, actual_output)
            predicted = _aliased_arguments(fake, predicted_output)
            message = f"{label} aliases inputs {aliased}, but the fake tensor aliases {predicted}."
            fact(recorder, aliased == predicted, Kind.ALIASING, message, sample=index)


def _aliased_arguments(sample: Sample, tensor: torch.Tensor) -> list[int]:
    """Return the indices of the sample's tensors with which a tensor shares memory."""
    storage = tensor.untyped_storage()._cdata
    return [
        index
        for index, argument in enumerate(sample.tensors())
        if argument.layout is torch.strided and argument.untyped_storage()._cdata == storage
    ]
