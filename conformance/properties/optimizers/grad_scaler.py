"""Property ``grad-scaler``: GradScaler scales gradients without changing steps, and skips invalid steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework import undeclared_dtypes
from conformance.framework.calls import is_refusal
from conformance.framework.compare import compare_exact, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.optimizers import Observation, observe_parameters_and_state
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.copies import make_copier
from conformance.samples.optimizers import STEP_COUNT, OptimizerSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The initial scale. It is a power of two, so that scaling and unscaling are exact.
_SCALE = 2.0**10


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    return common.dtypes_of_dense_optimizer(target, subject)[:1]


@register(
    "grad-scaler",
    subject_kind="optimizer",
    statement="GradScaler's steps equal unscaled steps; it skips a step with an infinite or NaN gradient.",
    documentation="amp.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd", "grad_scaler"),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Take scaled steps, one of them with an infinite or NaN gradient, and compare parameters and scales with
    the reference.
    """
    for sample, reference in common.samples_with_references(
        target, subject, recorder, common.STEP, 2, such_that=_has_number_options
    ):
        for implementation, options in common.options_by_implementation(target, subject, sample).items():
            for invalid_value in (float("inf"), float("nan")):
                outcome = common.attempt_on_target(
                    target,
                    lambda options=options, sample=sample, invalid_value=invalid_value: _take_scaled_steps(
                        target, sample, options, invalid_value
                    ),  # type: ignore[misc]
                )
                label = f"{implementation}, scaled, with {invalid_value}"
                if outcome.error is not None and is_refusal(outcome.error):
                    scaled = functools.partial(
                        _take_scaled_steps, target.on_cpu(), sample, options, invalid_value
                    )
                    if undeclared := undeclared_dtypes.undeclared_dtypes_of_call(target, scaled):
                        recorder.omit_for_dtypes(
                            undeclared
                        )  # torch computes the reciprocal of the scale in float64
                        continue
                if common.require_success(
                    target, recorder, outcome, f"{sample.describe()} ({label})", sample.index
                ):
                    observation, before, after, scales = outcome.value
                    common.compare_observation(
                        target, recorder, subject, sample, observation, reference, label=label
                    )
                    _check_skipped_step(recorder, sample, before, after, scales, label)


def _has_number_options(sample: OptimizerSample) -> bool:
    return not sample.capturable and not sample.tensor_lr


def _take_scaled_steps(
    target: Target, sample: OptimizerSample, options: dict[str, Any], invalid_value: float
) -> Any:
    """Take all steps of the sample and, after the second step, an additional step with ``invalid_value`` in a
    gradient, which GradScaler must skip.
    """
    problem = sample.problem(make_copier(target))
    optimizer = sample.build(problem.parameters, **options)
    scaler = torch.amp.GradScaler(target.torch_device.type, init_scale=_SCALE, growth_interval=100)
    before: Observation = {}
    after: Observation = {}
    scales = [scaler.get_scale()]
    for step in range(STEP_COUNT):
        _take_scaled_step(problem, optimizer, scaler, step, None)
        if step == 1:
            before = {
                name: _clone_if_tensor(value)
                for name, value in observe_parameters_and_state(problem, optimizer).items()
            }
            _take_scaled_step(problem, optimizer, scaler, step, invalid_value)
            after = {
                name: _clone_if_tensor(value)
                for name, value in observe_parameters_and_state(problem, optimizer).items()
            }
            scales.append(scaler.get_scale())
    scales.append(scaler.state_dict()["scale"])
    return observe_parameters_and_state(problem, optimizer), before, after, scales


def _clone_if_tensor(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _take_scaled_step(
    problem: Any, optimizer: Any, scaler: Any, step: int, invalid_value: float | None
) -> None:
    optimizer.zero_grad()
    parts = []
    for index, (parameter, gradient) in enumerate(
        zip(problem.parameters, problem.gradients[step], strict=True)
    ):
        weight = gradient.clone()
        if invalid_value is not None and index == 1:
            weight.view(-1)[-1] = invalid_value
        parts.append((parameter * weight).sum())
    scaler.scale(torch.stack(parts).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def _check_skipped_step(
    recorder: Recorder,
    sample: OptimizerSample,
    before: Observation,
    after: Observation,
    scales: list[float],
    label: str,
) -> None:
    """Check that the skipped step changed no value and that the scales are as expected."""
    for name, value in before.items():
        if isinstance(value, torch.Tensor):
            part_label = f"{name} of {sample.describe()} after a step that must be skipped ({label})"
            compare_exact(recorder, after.get(name), value, label=part_label, sample=sample.index)
    expected_scales = [_SCALE, _SCALE / 2, _SCALE / 2]
    text = f"the scales of {sample.describe()} ({label}) are {scales}, expected {expected_scales}."
    fact(recorder, scales == expected_scales, Kind.STATE, text, sample=sample.index)
