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
    if not subject.info.supports_gradgrad:
        return []
    return differentiable(target, subject, ("float64", "complex128"))


@register(
    "gradgrad",
    subject_kind="operator",
    statement=(
        "Gradients of gradients equal the CPU's; where a gradient is constant, it is so on the device too."
    ),
    level="training",
    applies=applies,
    capabilities=("autograd", "double_backward"),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    info, own = pristine(subject), subject.info
    for sample, copy in _gradients.cases(target, subject, recorder, LIMIT):
        reference = _gradients.on_cpu(
            recorder, sample, functools.partial(_gradients.second, info, info.op, to_host(sample))
        )
        found = _gradients.on_target(
            target,
            recorder,
            sample,
            functools.partial(_gradients.second, own, own.op, copy),
            reference,
            "the backward of the backward",
        )
        if found is None or not reference.ok:
            continue
        if same_nesting(recorder, found, reference.value, what="the second derivative", sample=sample.index):
            _gradients.compare_gradients(
                target, recorder, subject, sample, found, reference.value, what="the second derivative"
            )
