"""Property: first derivatives in float32, bfloat16 and complex64 are close to the CPU's in float64."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _gradient_tolerance, _gradients
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import differentiable_dtypes
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 8


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    return differentiable_dtypes(target, subject, ("float32", "complex64", "bfloat16"))


@register(
    "backward-cpu",
    subject_kind="operator",
    statement="Gradients in float32, bfloat16 and complex64 equal the CPU's gradients in double precision "
    "within the backward tolerance.",
    documentation="notes/autograd.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd",),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare the gradients of each sample with the CPU's gradients in float64."""
    info = subject.info
    for sample, copy in _gradients.differentiable_samples(target, subject, recorder, LIMIT):
        reference = _gradients.first_derivatives_on_cpu(subject, recorder, sample)
        derivative = _gradients.value_on_target(
            target,
            recorder,
            sample,
            functools.partial(_gradients.differentiate, info, info.op, copy),
            reference,
            "the backward",
        )
        if derivative is None or not reference.ok:
            continue
        _gradient_tolerance.compare_with_float64(
            target, recorder, subject, sample, derivative.gradients, reference.value
        )
