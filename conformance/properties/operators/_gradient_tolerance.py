"""Compare gradients with the CPU's float64 gradients, within the tolerance for backward passes."""

from __future__ import annotations

from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework.calls import attempt
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import rule, unit_of
from conformance.oracle.precision import HIGH_PRECISION_DTYPES
from conformance.properties.operators import _gradient_sensitivity, _gradients
from conformance.properties.shared.dtypes import dtype_under_test, unmodified_info
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def compare_with_float64(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    actual: list[torch.Tensor | None],
    reference: _gradients.Derivative,
    label: str = "the gradient",
) -> bool:
    """Compare gradients with the CPU's float64 gradients, and return whether they agree.

    ``reference`` is the CPU's derivative in the dtype under test. Its gradients replace the float64 gradients
    if the CPU rejects float64, or if the tolerance rule requires a reference in the dtype under test.
    """
    applied = rule(subject.name, dtype_under_test(recorder), "backward")
    high_precision = None if applied.oracle == "same" else _float64_derivative(subject, sample, 0.0, 0)
    expected, sensitivities = reference, None
    if high_precision is not None and len(high_precision.gradients) == len(expected.gradients):
        sensitivities = _gradient_sensitivities_of_sample(
            subject, sample, high_precision, dtype_under_test(recorder)
        )
        expected = high_precision
    return _gradients.compare_gradients(
        target,
        recorder,
        subject,
        sample,
        actual,
        expected.gradients,
        label=label,
        sensitivities=sensitivities,
        size=_gradients.expected_gradient_size(reference, logarithmic=applied.logarithmic),
    )


def _float64_derivative(subject: Subject, sample: Sample, step: float, seed: int) -> Any:
    """Return the CPU's derivative in float64, at the sample's inputs.

    If ``step`` is not 0, the inputs are moved by this relative step, in the random direction of ``seed``.

    The result is None if the CPU rejects the call.
    """
    info = unmodified_info(subject)
    copy = to_host(sample, HIGH_PRECISION_DTYPES)
    if step:
        _gradient_sensitivity.perturb_inputs(copy, step, seed)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch_testing_internals.torch_seeded(sample.index), torch_testing_internals.silence_warnings():
            outcome = attempt(lambda: _gradients.differentiate(info, info.op, copy))
    finally:
        torch.set_default_dtype(before)
    return outcome.value if outcome.ok else None


def _gradient_sensitivities_of_sample(
    subject: Subject, sample: Sample, high_precision: Any, dtype: torch.dtype
) -> list[torch.Tensor | None]:
    step = unit_of(dtype) / 2
    return _gradient_sensitivity.gradient_sensitivities(
        high_precision, lambda seed: _float64_derivative(subject, sample, step, seed), step
    )
