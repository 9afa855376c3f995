"""Property: compiled random operators draw new values in each call, of the specified distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.compare import fact, to_host_tensor
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _compiled_calls
from conformance.properties.shared.distribution_tests import (
    CONTINUOUS,
    DISCRETE,
    DRAWN_COUNT,
    check_kolmogorov_smirnov,
    check_moments,
    restoring_generators,
    unseeded_random_operator,
)
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not _compiled_calls.can_be_captured_by_dynamo(subject):
        return []
    if subject.name not in CONTINUOUS and subject.name not in DISCRETE:
        return []
    return first_dtypes(target, subject, ("float32",))


@register(
    "compile_random",
    subject_kind="operator",
    statement=(
        "A compiled random operator draws new values in each call, and the same values after the same seed. "
        "The values have the specified distribution."
    ),
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="Compiled draws must be equal after the same seed, and differ if no seed is set between them",
    level="core",
    applies=dtypes_to_check,
    capabilities=("compile", "random"),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Draw with the compiled operator from fixed seeds and test repeatability and distribution."""
    with restoring_generators():
        _check_compiled_draws(target, subject, recorder)


def drawing_function(subject: Subject) -> Callable[[torch.Tensor], Any]:
    """Return a function of one tensor that draws as many values as the tensor has elements."""
    sampler, op = (
        (CONTINUOUS.get(subject.name) or DISCRETE[subject.name])[0],
        unseeded_random_operator(subject),
    )
    return lambda x: sampler(op, x)


def _check_compiled_draws(target: Target, subject: Subject, recorder: Recorder) -> None:
    compiler = _compiled_calls.CompiledCallRunner(target, recorder)

    def zeros_on(device: torch.device) -> torch.Tensor:
        return torch.zeros(DRAWN_COUNT, dtype=dtype_under_test(recorder), device=device)

    def draw_three_times(call: Callable[..., Any], device: torch.device) -> list[torch.Tensor]:
        values = []
        with torch_testing_internals.silence_warnings(), torch.no_grad():
            for seed in (11, None, 11):
                if seed is not None:
                    target.manual_seed(seed)
                values.append(to_host_tensor(trees.tensors(call(zeros_on(device)))[0]).clone())
        return values

    host = torch.device("cpu")
    outcome = compiler.call(
        Sample(0, None),
        drawing_function(subject),
        lambda call: draw_three_times(call, target.torch_device),
        lambda call: draw_three_times(call, host),
        cpu_function=drawing_function(find("operator", subject.name)),
    )
    if outcome is not None:
        first, second, repeated = outcome.value
        fact(
            recorder, torch.equal(first, repeated), Kind.STATE, "compiled, the same seed gives other values."
        )
        message = "compiled, a second call gives the values of the first."
        fact(recorder, not torch.equal(first, second), Kind.STATE, message)
        values = first.to(torch.float64)
        if subject.name in CONTINUOUS:
            check_kolmogorov_smirnov(recorder, values, CONTINUOUS[subject.name][1])
        else:
            check_moments(recorder, values, *DISCRETE[subject.name][1:])
    compiler.require_evidence()
