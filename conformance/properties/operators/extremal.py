"""Elementwise operators on scalars, broadcast, small, large and extremal values."""

from __future__ import annotations

from collections.abc import Sequence

from conformance import torch_private
from conformance.checking import trees
from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.oracle.operators import compute
from conformance.properties.operators._common import (
    compare_result,
    copy_in,
    dtype_under_test,
    dtypes_of,
    failed_call,
    run,
)
from conformance.samples import extent
from conformance.samples.operators import reference_samples_of
from conformance.subjects.databases import Subject
from conformance.target.target import Target

LIMIT = 24
LARGEST = 5000


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    info = subject.info
    if not (torch_private.is_elementwise_unary(info) or torch_private.is_elementwise_binary(info)):
        return []
    if "_polynomial_" in subject.name:
        return []  # their recurrences overflow on the way to small results
    return dtypes_of(target, subject, ("float32", "bfloat16", "int64", "complex64"))


@register(
    "extremal",
    subject_kind="operator",
    statement=(
        "Infinities, NaNs, extremes, small and large values, numbers and broadcast inputs give the "
        "oracle's values."
    ),
    level="core",
    applies=applies,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    dtype = dtype_under_test(recorder)
    samples = reference_samples_of(subject, dtype)
    recorder.samples(0, samples.available)
    for sample in samples.chosen(extent.limit(LIMIT)):
        if trees.numel(sample.arguments) > LARGEST:
            continue  # shapes for speed, not values of another kind
        want = compute(subject, dtype, sample)
        if not want.ok:
            continue
        recorder.samples(1, 0)
        copy = copy_in(target, recorder, sample)
        if copy is None:
            continue
        outcome = run(target, subject.info.op, copy)
        if outcome.ok:
            compare_result(target, recorder, subject, sample, outcome.value, want, bits=True)
        else:
            failed_call(target, recorder, sample, outcome)
