"""First derivatives in working precision."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _gradient_tolerance, _gradients
from conformance.properties.shared.dtypes import differentiable
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 8


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return differentiable(target, subject, ("float32", "complex64", "bfloat16"))


@register(
    "backward-cpu",
    subject_kind="operator",
    statement="Gradients in working precision equal the CPU's in float64 within the backward tolerance.",
    documentation="notes/numerical_accuracy.html",
    level="training",
    applies=applies,
    capabilities=("autograd",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    info = subject.info
    for sample, copy in _gradients.cases(target, subject, recorder, LIMIT):
        reference = _gradients.reference(subject, recorder, sample)
        derivative = _gradients.on_target(
            target,
            recorder,
            sample,
            functools.partial(_gradients.differentiate, info, info.op, copy),
            reference,
            "the backward",
        )
        if derivative is None or not reference.ok:
            continue
        _gradient_tolerance.judge(target, recorder, subject, sample, derivative.gradients, reference.value)
