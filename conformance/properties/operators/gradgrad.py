"""Property: second derivatives in double precision equal the CPU's second derivatives."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel

from conformance.framework.calls import CallOutcome, attempt_on
from conformance.framework.compare import compare_leaf_counts, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import unit_of
from conformance.model.verdicts import Basis, Kind
from conformance.properties.operators import _gradient_sensitivity, _gradients
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import differentiable_dtypes, dtype_under_test, unmodified_info
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4
LIMIT_IN_PLACE = 2


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    return differentiable_dtypes(target, subject, ("float64", "complex128"))


@register(
    "gradgrad",
    subject_kind="operator",
    statement=(
        "Second derivatives are as on the CPU, also for the in-place form. A gradient that is constant on "
        "the CPU is constant on the device. Second derivatives that torch does not have raise an error."
    ),
    documentation="notes/gradcheck.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd", "double_backward"),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare the second derivatives of the device and of the CPU for each sample, also of in-place forms."""
    info, tested = unmodified_info(subject), subject.info
    for sample, copy in _gradients.differentiable_samples(target, subject, recorder, LIMIT):
        _check_second_derivatives(
            target, subject, recorder, sample, copy, info.op, tested.op, "the second derivative"
        )
    reference, form = _gradients.in_place_form(info), _gradients.in_place_form(tested)
    if reference is None or form is None or not target.capable("inplace"):
        return
    for sample, copy in _gradients.differentiable_samples(target, subject, recorder, LIMIT_IN_PLACE):
        _check_second_derivatives(
            target, subject, recorder, sample, copy, reference, form, "the in-place form's second derivative"
        )


def _check_second_derivatives(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    copy: Sample,
    reference_op: _gradients.Operator,
    op: _gradients.Operator,
    label: str,
) -> None:
    info = unmodified_info(subject)

    def second_derivatives(entry: Any, form: _gradients.Operator, call_sample: Sample) -> Any:
        with sdpa_kernel(SDPBackend.MATH):  # only the math kernel has second derivatives on every device
            return _gradients.second_derivatives(entry, form, call_sample)

    reference = _gradients.outcome_on_cpu(
        recorder, sample, functools.partial(second_derivatives, info, reference_op, to_host(sample))
    )
    call = functools.partial(second_derivatives, subject.info, op, copy)
    if _is_missing_derivative_error(reference):
        outcome = attempt_on(target, call)
        message = f"{label} raises no error, although torch has no formula for this derivative."
        fact(recorder, not outcome.ok, Kind.ERROR_TYPE, message, sample=sample.index, basis=Basis.PARITY)
        return
    actual = _gradients.value_on_target(
        target, recorder, sample, call, reference, "the backward of the backward"
    )
    if actual is None or not reference.ok:
        return
    gradients, expected = actual.gradients, reference.value
    if compare_leaf_counts(recorder, gradients, expected.gradients, label=label, sample=sample.index):
        compare = functools.partial(
            _gradients.compare_gradients,
            target,
            subject=subject,
            sample=sample,
            actual=gradients,
            expected=expected.gradients,
            label=label,
            size=_gradients.expected_gradient_size(expected),
        )
        trial = recorder.scratch()
        if compare(trial):
            recorder.merge(trial)
            return
        # Some second derivatives move by thousands of roundings if an input moves by one rounding. Therefore
        # repeat the comparison, with the sensitivity added to the tolerance.
        step = unit_of(dtype_under_test(recorder)) / 2

        def derivative_at_moved_inputs(seed: int) -> _gradients.Derivative | None:
            moved_sample = to_host(sample)
            _gradient_sensitivity.perturb_inputs(moved_sample, step, seed)
            call = functools.partial(second_derivatives, info, reference_op, moved_sample)
            value: _gradients.Derivative | None = _gradients.outcome_on_cpu(recorder, sample, call).value
            return value

        sensitivities = _gradient_sensitivity.gradient_sensitivities(
            expected, derivative_at_moved_inputs, step
        )
        compare(recorder, sensitivities=_gradient_sensitivity.without_jumps(sensitivities, expected))


def _is_missing_derivative_error(outcome: CallOutcome) -> bool:
    """Return whether an outcome is torch's error for a derivative that has no formula."""
    return outcome.error is not None and "is not implemented" in str(outcome.error)
