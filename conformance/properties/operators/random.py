"""Property: random operators are reproducible and follow the specified distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt_on
from conformance.framework.compare import fact, to_host_tensor
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.distribution_tests import (
    CONTINUOUS,
    DISCRETE,
    DRAWN_COUNT,
    UNSEEDED_OPERATORS,
    check_kolmogorov_smirnov,
    check_moments,
    restoring_generators,
    unseeded_random_operator,
)
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    target_declares_call,
)
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 3


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if subject.name not in UNSEEDED_OPERATORS:
        return []
    return first_dtypes(target, subject, ("float32", "int64", "bfloat16"), 2)


@register(
    "random",
    subject_kind="operator",
    statement=(
        "The same seed gives the same values, and another seed gives other values. The values have the "
        "specified distribution. On a device with a generator, the operator neither advances nor uses the "
        "host's generator."
    ),
    documentation="notes/randomness.html",
    level="core",
    applies=dtypes_to_check,
    capabilities=("random",),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Draw from fixed seeds; test repeatability, distribution and independence of the host's generator."""
    with restoring_generators():
        _check_reproducible(target, subject, recorder)
        _check_distribution(target, subject, recorder)


def _seed_and_call(
    target: Target, recorder: Recorder, op: Any, sample: Sample, seed: int, draws_before_call: int = 0
) -> Any:
    """Seed, draw ``draws_before_call`` numbers from the host's generator, and return the results of the
    operator.

    The result is None if the call fails.
    """
    copy = copy_sample_to_device(target, recorder, sample)
    if copy is None:
        return None
    target.manual_seed(seed)
    if draws_before_call:
        torch.rand(draws_before_call)
    outcome = run_operator(target, op, copy)
    if not outcome.ok:
        report_failed_call(target, recorder, sample, outcome)
        return None
    return [to_host_tensor(t) for t in trees.tensors(outcome.value)]


def _all_equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(
        a.shape == b.shape and bool((a == b).all()) for a, b in zip(first, second, strict=False)
    )


def _check_reproducible(target: Target, subject: Subject, recorder: Recorder) -> None:
    samples = samples_of(subject, dtype_under_test(recorder))
    chosen = samples.chosen(LIMIT)
    recorder.samples(len(chosen), samples.available)
    op = unseeded_random_operator(subject)
    for sample in chosen:
        if not target_declares_call(target, recorder, sample):
            continue
        index = sample.index
        first = _seed_and_call(target, recorder, op, sample, 11)
        repeated = _seed_and_call(target, recorder, op, sample, 11)
        if first is None or repeated is None:
            continue
        message = "the same seed gives different values."
        fact(recorder, _all_equal(first, repeated), Kind.STATE, message, sample=index)
        if target.is_cpu or not target.capable("generator"):
            continue
        state = torch.default_generator.get_state()
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is not None and run_operator(target, op, copy).ok:
            message = "drawing on the device has advanced the host's generator."
            still = torch.equal(state, torch.default_generator.get_state())
            fact(recorder, still, Kind.STATE, message, sample=index)
        moved = _seed_and_call(target, recorder, op, sample, 11, draws_before_call=7)
        if moved is not None:
            message = "draws from the host's generator have changed the device's values."
            fact(recorder, _all_equal(first, moved), Kind.STATE, message, sample=index)


def _check_distribution(target: Target, subject: Subject, recorder: Recorder) -> None:
    dtype = dtype_under_test(recorder)
    if dtype != torch.float32:
        return
    device = target.torch_device
    sampler = CONTINUOUS.get(subject.name) or DISCRETE.get(subject.name)
    if sampler is None:
        return

    def draw_with_seed(seed: int) -> torch.Tensor | None:
        def seed_and_draw() -> torch.Tensor:
            with torch_testing_internals.silence_warnings(), torch.no_grad():
                target.manual_seed(seed)
                x = torch.zeros(DRAWN_COUNT, dtype=dtype, device=device)
                return to_host_tensor(sampler[0](unseeded_random_operator(subject), x)).to(torch.float64)

        outcome = attempt_on(target, seed_and_draw)
        if outcome.ok:
            values: torch.Tensor = outcome.value
            return values
        report_failed_call(target, recorder, Sample(-1, None), outcome, f"drawing {DRAWN_COUNT} values")
        return None

    values, other_values = draw_with_seed(11), draw_with_seed(12)
    if values is None or other_values is None:
        return
    different = values.shape == other_values.shape and not bool((values == other_values).all())
    fact(recorder, different, Kind.STATE, "another seed gives the same values.")
    if subject.name in CONTINUOUS:
        check_kolmogorov_smirnov(recorder, values, CONTINUOUS[subject.name][1])
    else:
        _, mean, variance, low, high = DISCRETE[subject.name]
        check_moments(recorder, values, mean, variance, low, high)
