"""Second derivatives in double precision."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from conformance.checking.compare import same_nesting
from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.properties.operators import _gradients
from conformance.properties.operators._common import differentiable, pristine
from conformance.samples.copies import to_host
from conformance.subjects.databases import Subject
from conformance.target.target import Target

LIMIT = 4


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not subject.info.supports_gradgrad:
        return []
    return differentiable(target, subject, ("float64", "complex128"))


@register(
    "gradgrad",
    subject_kind="operator",
    statement=(
        "Gradients of gradients equal the CPU's; if a gradient is constant, it is so on the device too."
    ),
    level="training",
    applies=applies,
    capabilities=("autograd", "double_backward"),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    info, tested = pristine(subject), subject.info
    for sample, copy in _gradients.cases(target, subject, recorder, LIMIT):
        reference = _gradients.on_cpu(
            recorder, sample, functools.partial(_gradients.second, info, info.op, to_host(sample))
        )
        actual = _gradients.on_target(
            target,
            recorder,
            sample,
            functools.partial(_gradients.second, tested, tested.op, copy),
            reference,
            "the backward of the backward",
        )
        if actual is None or not reference.ok:
            continue
        gradients, expected = actual.gradients, reference.value
        if same_nesting(
            recorder, gradients, expected.gradients, what="the second derivative", sample=sample.index
        ):
            _gradients.compare_gradients(
                target,
                recorder,
                subject,
                sample,
                gradients,
                expected.gradients,
                what="the second derivative",
                size=_gradients.natural_size(expected),
            )
