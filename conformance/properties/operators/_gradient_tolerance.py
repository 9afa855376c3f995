"""Gradients in working precision, compared with the CPU's in float64 within the backward tolerance."""

from __future__ import annotations

from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework.calls import attempt
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import rule, unit_of
from conformance.oracle.precision import UP
from conformance.properties.operators import _gradient_sensitivity, _gradients
from conformance.properties.shared.dtypes import dtype_under_test, pristine
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def judge(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    actual: list[torch.Tensor | None],
    reference: _gradients.Derivative,
    label: str = "the gradient",
) -> bool:
    """Compare gradients with the CPU's; ``reference`` is its derivative in the same dtype."""
    applied = rule(subject.name, dtype_under_test(recorder), "backward")
    precise = None if applied.oracle == "same" else _precise(subject, sample, 0.0, 0)
    expected, spreads = reference, None
    if precise is not None and len(precise.gradients) == len(expected.gradients):
        spreads = _spreads(subject, sample, precise, dtype_under_test(recorder))
        expected = precise
    return _gradients.compare_gradients(
        target,
        recorder,
        subject,
        sample,
        actual,
        expected.gradients,
        label=label,
        spreads=spreads,
        size=_gradients.natural_size(reference, logarithmic=applied.logarithmic),
    )


def _precise(subject: Subject, sample: Sample, step: float, seed: int) -> Any:
    """Return the derivative in float64, at the sample or with its inputs moved by one step; None if
    refused.
    """
    info = pristine(subject)
    copy = to_host(sample, UP)
    if step:
        _gradient_sensitivity.move(copy, step, seed)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch_testing_internals.torch_seeded(sample.index), torch_testing_internals.quiet():
            outcome = attempt(lambda: _gradients.differentiate(info, info.op, copy))
    finally:
        torch.set_default_dtype(before)
    return outcome.value if outcome.ok else None


def _spreads(subject: Subject, sample: Sample, precise: Any, dtype: torch.dtype) -> list[torch.Tensor | None]:
    step = unit_of(dtype) / 2
    return _gradient_sensitivity.spreads(precise, lambda seed: _precise(subject, sample, step, seed), step)
