"""Property: derivatives of composite operators support tensor subclasses."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt, one_line, report_error
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _gradients
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import differentiable_dtypes, unmodified_info
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 1
#: The maximum number of tensors in a sample. It is small, because the checker tries every subset of the
#: arguments and every subset of the tangents or gradients.
MOST_TENSORS = 3


def dtypes_for_backward(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if torch_testing_internals.composite_checks() is None:
        return []
    return differentiable_dtypes(target, subject, ("float32", "complex64"))[:1]


def dtypes_for_forward_mode(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    return dtypes_for_backward(target, subject) if subject.info.supports_forward_ad else []


def _ignore_comparison(actual: Any, expected: Any, **options: Any) -> None:
    """Compare nothing. On the CPU, only the errors that the checker itself raises matter."""


def _check_formula_on_samples(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    label: str,
    run: Callable[[Any, Sample, Callable[..., None]], None],
) -> None:
    for sample, copy in _gradients.differentiable_samples(target, subject, recorder, LIMIT):
        if len(sample.tensors()) > MOST_TENSORS:
            recorder.compared(1)
            continue
        reference = _gradients.first_derivatives_on_cpu(subject, recorder, sample)
        if not reference.ok or not reference.value.gradients:
            recorder.compared(1)  # nothing to differentiate
            continue
        trial = recorder.scratch()

        def equal(
            actual: Any, expected: Any, *, sample: Sample = sample, trial: Recorder = trial, **options: Any
        ) -> None:
            _gradients.compare_gradients(
                target,
                trial,
                subject,
                sample,
                [*trees.tensors(actual)],
                [*trees.tensors(expected)],
                label=f"{label} with a subclass, compared with {label} without,",
            )

        outcome = attempt(functools.partial(_run_without_warnings, run, subject.info, copy, equal))
        if outcome.error is not None and "could not run '" in str(outcome.error).lower():
            # A missing kernel does not show that the derivative is composed incorrectly. Record the error as
            # for any call that raises.
            trial.compared(1)
            report_error(target, trial, outcome.error, label=label, sample=sample.index)
        else:
            message = "" if outcome.error is None else f"{label}: {one_line(outcome.error, 600)}"
            fact(trial, outcome.ok, Kind.METADATA, message, sample=sample.index)
        host = functools.partial(
            _run_without_warnings, run, unmodified_info(subject), to_host(sample), _ignore_comparison
        )
        if trial.failed and not attempt(host).ok:
            recorder.compared(1)  # torch's own formula fails the check too
            continue
        recorder.merge(trial)


def _run_without_warnings(
    run: Callable[[Any, Sample, Callable[..., None]], None],
    info: Any,
    sample: Sample,
    equal: Callable[..., None],
) -> None:
    with warnings.catch_warnings(), torch_testing_internals.torch_seeded(sample.index), torch.enable_grad():
        warnings.simplefilter("ignore")
        run(info, sample, equal)


def _check_backward_formula(info: Any, sample: Sample, equal: Callable[..., None]) -> None:
    checks: Any = torch_testing_internals.composite_checks()
    checks.check_backward_formula(
        info.op,
        (sample.input, *sample.args),
        sample.kwargs,
        sample.process,
        torch_testing_internals.gradcheck_wrapper(info),
        equal,
    )


def _check_forward_formula(info: Any, sample: Sample, equal: Callable[..., None]) -> None:
    checks: Any = torch_testing_internals.composite_checks()
    wrapper = torch_testing_internals.gradcheck_wrapper(info)
    checks.check_forward_ad_formula(info.op, (sample.input, *sample.args), sample.kwargs, wrapper, equal)


@register(
    "composite-backward",
    subject_kind="operator",
    statement="A composite backward calls only operators and functions that tensor subclasses can handle.",
    documentation="notes/extending.html",
    basis="parity",
    ground="No page demands that backward formulas be composite compliant; torch's own tests do",
    level="full",
    applies=dtypes_for_backward,
    capabilities=("autograd",),
    runs=False,
)
@controlled_by_cpu
def check_backward(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run torch's composite compliance check of the backward on each sample."""
    _check_formula_on_samples(target, subject, recorder, "the gradient", _check_backward_formula)


@register(
    "composite-forward-ad",
    subject_kind="operator",
    statement=(
        "Composite forward-mode formulas call only operators and functions that tensor subclasses can handle."
    ),
    documentation="notes/extending.html",
    basis="parity",
    ground="No page demands that forward-mode formulas be composite compliant; torch's own tests do",
    level="full",
    applies=dtypes_for_forward_mode,
    capabilities=("forward_ad",),
    runs=False,
)
@controlled_by_cpu
def check_forward(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run torch's composite compliance check of forward mode on each sample."""
    _check_formula_on_samples(target, subject, recorder, "the tangent", _check_forward_formula)
