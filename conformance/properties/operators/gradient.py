"""First derivatives in double precision."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from conformance.framework.compare import fact, same_nesting
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _gradients
from conformance.properties.shared.dtypes import differentiable, pristine
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 6
#: The truncation error of central differences with a step of 1e-6 is far below this; a wrong formula is off
#: by parts in a hundred.
NUMERICAL = 1e-4

#: Functions with no derivative along a random direction, by the samples that torch's database makes for them.
_NO_DIRECTION = {
    "as_strided_scatter": "several positions write to one element",
    "nn.functional.max_unpool1d": "several indices name one element",
    "nn.functional.max_unpool2d": "several indices name one element",
    "nn.functional.max_unpool3d": "several indices name one element",
    "nn.functional.cosine_embedding_loss": "the targets are the labels 1 and -1",
    "nn.functional.hinge_embedding_loss": "the targets are the labels 1 and -1",
}


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return differentiable(target, subject, ("float64", "complex128"))


@register(
    "gradient",
    subject_kind="operator",
    statement=(
        "Gradients equal the CPU's, and those equal the numerical derivative along a random direction; the "
        "backward changes neither arguments nor results nor the gradients that it is given."
    ),
    documentation="notes/gradcheck.html",
    level="training",
    applies=applies,
    capabilities=("autograd",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    info, tested = pristine(subject), subject.info
    for sample, copy in _gradients.cases(target, subject, recorder, LIMIT):
        reference = _gradients.reference(subject, recorder, sample)
        actual = _gradients.on_target(
            target,
            recorder,
            sample,
            functools.partial(_gradients.differentiate, tested, tested.op, copy, watch=True),
            reference,
            "the backward",
        )
        if actual is None or not reference.ok:
            continue
        expected = reference.value
        if not same_nesting(
            recorder, actual.outputs, expected.outputs, label="the differentiable result", sample=sample.index
        ):
            continue
        good = _gradients.compare_gradients(
            target,
            recorder,
            subject,
            sample,
            actual.gradients,
            expected.gradients,
            label="the gradient",
            size=_gradients.natural_size(expected),
        )
        _gradients.check_kept(recorder, sample, copy, actual, expected.written)
        if not good or not expected.gradients or sample.index or subject.name in _NO_DIRECTION:
            continue
        numerical, analytic, rounding = _gradients.directional(info, sample, expected)
        if not math.isfinite(numerical) or not math.isfinite(analytic):
            continue
        allowed = NUMERICAL * max(abs(numerical), abs(analytic)) + rounding + 1e-12
        message = (
            f"the derivative along a random direction is {analytic!r} by the backward and {numerical!r} "
            f"by central differences (allowed difference {allowed:.3g})."
        )
        fact(recorder, abs(numerical - analytic) <= allowed, Kind.VALUE, message, sample=sample.index)
