"""Property: in double precision, gradients equal the CPU's gradients and a numerical derivative."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from conformance.framework.compare import compare_leaf_counts, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _gradients
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import differentiable_dtypes, unmodified_info
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 6
#: The largest allowed relative difference between a derivative and its numerical value. The truncation error
#: of central differences with a step of 1e-6 is far smaller; a wrong formula is off by percents.
NUMERICAL = 1e-4

#: Operators whose samples in torch's database have no derivative along a random direction. The values are
#: the reasons.
_NO_DIRECTION = {
    "as_strided_scatter": "several positions write to one element",
    "nn.functional.max_unpool1d": "several indices name one element",
    "nn.functional.max_unpool2d": "several indices name one element",
    "nn.functional.max_unpool3d": "several indices name one element",
    "nn.functional.cosine_embedding_loss": "the targets are the labels 1 and -1",
    "nn.functional.hinge_embedding_loss": "the targets are the labels 1 and -1",
}


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    return differentiable_dtypes(target, subject, ("float64", "complex128"))


@register(
    "gradient",
    subject_kind="operator",
    statement=(
        "Gradients equal the CPU's gradients, which agree with the numerical derivative in one direction. "
        "The backward changes neither arguments nor results nor incoming gradients."
    ),
    documentation="autograd.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd",),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare the device's gradients with the CPU's, and the CPU's gradients with numerical derivatives."""
    info, tested = unmodified_info(subject), subject.info
    for sample, copy in _gradients.differentiable_samples(target, subject, recorder, LIMIT):
        reference = _gradients.first_derivatives_on_cpu(subject, recorder, sample)
        actual = _gradients.value_on_target(
            target,
            recorder,
            sample,
            functools.partial(_gradients.differentiate, tested, tested.op, copy, record_bytes=True),
            reference,
            "the backward",
        )
        if actual is None or not reference.ok:
            continue
        expected = reference.value
        if not compare_leaf_counts(
            recorder, actual.outputs, expected.outputs, label="the differentiable result", sample=sample.index
        ):
            continue
        agrees = _gradients.compare_gradients(
            target,
            recorder,
            subject,
            sample,
            actual.gradients,
            expected.gradients,
            label="the gradient",
            size=_gradients.expected_gradient_size(expected),
        )
        _gradients.check_unchanged_by_backward(recorder, sample, copy, actual, expected.written)
        if not agrees or not expected.gradients or sample.index or subject.name in _NO_DIRECTION:
            continue
        numerical, analytic, rounding = _gradients.directional_derivatives(info, sample, expected)
        if not math.isfinite(numerical) or not math.isfinite(analytic):
            continue
        allowed = NUMERICAL * max(abs(numerical), abs(analytic)) + rounding + 1e-12
        message = (
            f"the derivative along a random direction is {analytic!r} by the backward and {numerical!r} "
            f"by central differences (allowed difference {allowed:.3g})."
        )
        fact(recorder, abs(numerical - analytic) <= allowed, Kind.VALUE, message, sample=sample.index)
