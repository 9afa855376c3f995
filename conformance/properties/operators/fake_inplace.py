"""Property: fake tensors predict the metadata of inputs after in-place forms."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from conformance import torch_testing_internals
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import compare_metadata, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.properties.operators.fake import predict_with_fake_tensors
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    run_operator,
    samples_with_references,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not callable(subject.info.inplace_variant):
        return []
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool", "float64"), 2)


@register(
    "fake_inplace",
    subject_kind="operator",
    statement=(
        "In place, an operator returns its input with the shape, dtype and strides that a fake tensor "
        "predicts."
    ),
    documentation="user_guide/torch_compiler/torch.compiler_fake_tensor.html",
    level="full",
    applies=dtypes_to_check,
    capabilities=("fake_tensors", "storage", "inplace"),
    runs=False,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the in-place form on the device and on a fake tensor, and compare metadata and identity."""
    unpredictable = torch_testing_internals.dynamic_output_errors()
    for sample, reference in samples_with_references(target, subject, recorder, LIMIT):
        if not isinstance(sample.input, torch.Tensor):
            continue
        fits = isinstance(reference.outputs, torch.Tensor) and reference.outputs.dtype == sample.input.dtype
        if not fits or reference.outputs.shape != sample.input.shape:
            recorder.compared(1)  # the property variants checks results that do not fit into the input
            continue
        copy, second_copy = (
            copy_sample_to_device(target, recorder, sample),
            copy_sample_to_device(target, recorder, sample),
        )
        if copy is None or second_copy is None:
            continue
        outcome = run_operator(target, subject.info.inplace_variant, copy)
        predicted = attempt(
            functools.partial(predict_with_fake_tensors, subject.info.inplace_variant, second_copy)
        )
        if not outcome.ok:
            # The call failed on the device. The property ``variants`` checks whether it must succeed.
            recorder.compared(1)
            continue
        if not predicted.ok:
            assert predicted.error is not None
            refused = isinstance(predicted.error, unpredictable)
            message = f"fake tensors raise {one_line(predicted.error)}, but the device has a result."
            fact(recorder, refused, Kind.EXCEPTION, message, sample=sample.index, basis=Basis.PARITY)
            continue
        fake, fake_result = predicted.value
        fake_input = fake.input
        same = fake_result is fake_input
        message = "the in-place form of a fake tensor does not return its input."
        fact(recorder, same, Kind.ALIASING, message, sample=sample.index)
        message = "the in-place form does not return its input, but with a fake tensor it does."
        fact(recorder, outcome.value is copy.input, Kind.ALIASING, message, sample=sample.index)
        label = "the input after the in-place form, compared with its fake tensor,"
        compare_metadata(
            recorder,
            copy.input,
            fake_input,
            label=label,
            sample=sample.index,
            stride=True,
            device=fake_input.device,
        )
