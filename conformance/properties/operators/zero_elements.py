"""Property: tensors without elements are valid inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from conformance import torch_testing_internals
from conformance.framework.calls import one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.oracle.reference import Call, reference_for
from conformance.properties.shared.basis import basis_of_empty_input
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    target_declares_call,
)
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_SHAPES = ((0,), (2, 0, 3), (0, 4))


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    info = subject.info
    elementwise_or_reduction = (
        torch_testing_internals.is_elementwise_unary(info)
        or torch_testing_internals.is_elementwise_binary(info)
        or torch_testing_internals.is_reduction(info)
    )
    if not elementwise_or_reduction:
        return []
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool", "float64", "bfloat16"), 2)


@register(
    "zero-elements",
    subject_kind="operator",
    statement=(
        "Inputs of zero elements give the same shape, dtype and value as on the CPU, or the same error type."
    ),
    documentation="torch.html",
    level="core",
    applies=dtypes_to_check,
    about_emptiness=True,
    runs=False,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator on tensors of zero elements and compare results or errors with the CPU."""
    dtype = dtype_under_test(recorder)
    for sample in _samples_without_elements(subject, dtype):
        if not target_declares_call(target, recorder, sample):
            continue
        recorder.samples(1, 1)
        reference = reference_for(Call(subject, dtype, sample))
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        outcome = run_operator(target, subject.info.op, copy)
        if reference.ok and outcome.ok:
            reduces = torch_testing_internals.is_reduction(subject.info)
            with recorder.with_basis(basis_of_empty_input(subject.name, reduces=reduces)):
                compare_outputs(target, recorder, reference, outcome.value)
        elif reference.ok:
            report_failed_call(target, recorder, sample, outcome)
        else:
            device_text = "a result" if outcome.error is None else one_line(outcome.error)
            cpu_text = one_line(reference.error)  # type: ignore[arg-type]
            message = f"the operator on ({sample.describe()}) gives {device_text}, expected {cpu_text}."
            same = outcome.error is not None and isinstance(outcome.error, type(reference.error))
            fact(recorder, same, Kind.ERROR_TYPE, message, sample=sample.index, basis=Basis.PARITY)


def _samples_without_elements(subject: Subject, dtype: torch.dtype) -> Iterator[Sample]:
    index = 0
    for shape in _SHAPES:
        tensor = torch.empty(shape, dtype=dtype)
        if torch_testing_internals.is_elementwise_binary(subject.info):
            yield Sample(index, tensor, (torch.empty(shape, dtype=dtype),))
            yield Sample(index + 1, tensor, (torch.ones((), dtype=dtype),))
            index += 2
            continue
        yield Sample(index, tensor)
        index += 1
        if torch_testing_internals.is_reduction(subject.info):
            for dim in range(len(shape)):
                yield Sample(index, tensor, (), {"dim": dim, "keepdim": True})
                index += 1
