"""Property: elementwise operators give the reference values for extremal, scalar and broadcast inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from conformance import torch_testing_internals
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.reference import Call, reference_for
from conformance.properties.shared.basis import basis_of_values
from conformance.properties.shared.comparison import SAME_BITS_AGREE, compare_outputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import dtype_under_test, dtypes_of
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    target_declares_call,
)
from conformance.samples import sample_limit
from conformance.samples.operators import Sample, reference_samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 24
#: Distances from the bounds of an operator's domain at which numbers outside the domain are tried.
_DISTANCES = (1e-5, 1e-3, 0.1, 1.0, 2.0, 10.0, 20.0, 50.0, 100.0)


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    info = subject.info
    if not (
        torch_testing_internals.is_elementwise_unary(info)
        or torch_testing_internals.is_elementwise_binary(info)
    ):
        return []
    if "_polynomial_" in subject.name:
        return []  # intermediate values of polynomials overflow, even if the result is small
    return dtypes_of(target, subject, ("float32", "bfloat16", "int64", "complex64"))


@register(
    "extremal",
    subject_kind="operator",
    statement=(
        "Infinities, NaNs, extremes, small and large values, Python numbers, broadcast inputs and inputs "
        "outside of the domain give the reference values."
    ),
    documentation="notes/numerical_accuracy.html",
    basis="parity",
    ground=(
        "No page fixes results for NaN, inf or near overflow in general; the note allows overflow of "
        "intermediate values"
    ),
    level="core",
    applies=dtypes_to_check,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator and compare its results with the reference.

    The inputs are the ``reference_inputs`` of torch's database, and numbers outside of the operator's domain.
    """
    dtype = dtype_under_test(recorder)
    samples = reference_samples_of(subject, dtype)
    recorder.samples(0, samples.available)
    for sample in samples.chosen(sample_limit.limit(LIMIT)):
        reference = reference_for(Call(subject, dtype, sample))
        if not reference.ok or not target_declares_call(target, recorder, sample):
            continue
        recorder.samples(1, 0)
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        outcome = run_operator(target, subject.info.op, copy)
        with recorder.with_basis(basis_of_values(subject.name, sample, reference.outputs)):
            if outcome.ok:
                compare_outputs(target, recorder, reference, outcome.value, policy=SAME_BITS_AGREE)
            else:
                report_failed_call(target, recorder, sample, outcome)
    for sample in _samples_outside_domain(subject, dtype, samples.available):
        _check_nan_outside_domain(target, subject, recorder, sample)


def _samples_outside_domain(subject: Subject, dtype: torch.dtype, index: int) -> Iterator[Sample]:
    """Yield one sample of numbers below and above the domain of a real function, if the domain has bounds."""
    if not dtype.is_floating_point:
        return
    low, high = torch_testing_internals.domain_bounds(subject.info)
    numbers = [] if low is None else [low - distance for distance in _DISTANCES]
    numbers += [] if high is None else [high + distance for distance in _DISTANCES]
    tensor = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    below = tensor < (-float("inf") if low is None else low)
    above = tensor > (float("inf") if high is None else high)
    if (outside := tensor[below | above]).numel():
        yield Sample(index, outside)


def _check_nan_outside_domain(target: Target, subject: Subject, recorder: Recorder, sample: Sample) -> None:
    reference = reference_for(Call(subject, dtype_under_test(recorder), sample))
    if (
        not reference.ok
        or not isinstance(reference.outputs, torch.Tensor)
        or not reference.outputs.isnan().all()
    ):
        return
    if not target_declares_call(target, recorder, sample):
        return
    recorder.samples(1, 1)
    copy = copy_sample_to_device(target, recorder, sample)
    if copy is None:
        return
    outcome = run_operator(target, subject.info.op, copy)
    if outcome.ok:
        compare_outputs(target, recorder, reference, outcome.value, policy=SAME_BITS_AGREE)
    else:
        report_failed_call(target, recorder, sample, outcome)
