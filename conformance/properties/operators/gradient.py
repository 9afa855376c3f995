"""First derivatives in double precision."""

from __future__ import annotations

import math
from collections.abc import Sequence

from conformance.compare import fact, same_nesting
from conformance.model import Kind
from conformance.properties.operators import _gradients
from conformance.properties.operators._common import differentiable, pristine
from conformance.property import register
from conformance.recorder import Recorder
from conformance.subjects import Subject
from conformance.target import Target

LIMIT = 3
#: Central differences with a step of 1e-6 in float64 are good to about 1e-9 of the values; a wrong formula is
#: off by parts in a hundred.
NUMERICAL = 1e-4


def applies(target: Target, subject: Subject) -> Sequence[str]:
    return differentiable(target, subject, ("float64", "complex128"))


@register(
    "gradient",
    subject_kind="operator",
    statement="Gradients equal the CPU's, and those equal the numerical derivative along a random direction.",
    level="training",
    applies=applies,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    info, own = pristine(subject), subject.info
    for sample, copy in _gradients.cases(target, subject, recorder, LIMIT):
        reference = _gradients.reference(subject, recorder, sample)
        found = _gradients.on_target(
            target, recorder, sample, lambda: _gradients.differentiate(own, own.op, copy), reference, "the backward"
        )
        if found is None or not reference.ok:
            continue
        wanted = reference.value
        if not same_nesting(
            recorder, found.outputs, wanted.outputs, what="the differentiable result", sample=sample.index
        ):
            continue
        good = _gradients.compare_gradients(
            target, recorder, subject, sample, found.gradients, wanted.gradients, what="the gradient"
        )
        if not good or not wanted.gradients or sample.index:
            continue
        numerical, analytic, size = _gradients.directional(info, sample, wanted)
        if not math.isfinite(numerical) or not math.isfinite(analytic):
            continue
        allowed = NUMERICAL * max(abs(numerical), abs(analytic)) + 1e-7 * size + 1e-12
        message = (
            f"the derivative along a random direction is {analytic!r} by the backward and {numerical!r} by central "
            f"differences (allowed difference {allowed:.3g})."
        )
        fact(recorder, abs(numerical - analytic) <= allowed, Kind.VALUE, message, sample=sample.index)
