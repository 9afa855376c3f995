"""Gradient scaling for mixed precision."""

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
from conformance.oracle.optimizers import Observation, observed
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.optimizers import STEPS, OptimizerSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: A power of two, so that scaling and unscaling round nothing.
_SCALE = 2.0**10


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.dense(target, subject)[:1]


@register(
    "grad-scaler",
    subject_kind="optimizer",
    statement="GradScaler's steps equal unscaled ones; a step with an infinite or NaN gradient is left out.",
    documentation="amp.html",
    level="training",
    applies=applies,
    capabilities=("autograd", "grad_scaler"),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in common.cases(target, subject, recorder, common.STEP, 2, such_that=_usual):
        for word, options in common.implementations(target, subject, sample).items():
            for bad in (float("inf"), float("nan")):
                outcome = common.on_target(
                    target,
                    lambda options=options, sample=sample, bad=bad: _scaled(target, sample, options, bad),  # type: ignore[misc]
                )
                what = f"{word}, scaled, with {bad}"
                if outcome.error is not None and is_refusal(outcome.error):
                    scaled = functools.partial(_scaled, target.on_cpu(), sample, options, bad)
                    if missing := undeclared_dtypes.undeclared_dtypes_of_call(target, scaled):
                        recorder.left_out(missing)  # torch takes the reciprocal of the scale in float64
                        continue
                if common.succeeded(target, recorder, outcome, f"{sample.describe()} ({what})", sample.index):
                    shown, before, after, scales = outcome.value
                    common.compare_observation(target, recorder, subject, sample, shown, want, label=what)
                    _left_out(recorder, sample, before, after, scales, what)


def _usual(sample: OptimizerSample) -> bool:
    return not sample.capturable and not sample.tensor_lr


def _scaled(target: Target, sample: OptimizerSample, options: dict[str, Any], bad: float) -> Any:
    """Take all steps of the sample, and after the second one a step that must be left out."""
    problem = sample.problem(target.torch_device)
    optimizer = sample.build(problem.parameters, **options)
    scaler = torch.amp.GradScaler(target.torch_device.type, init_scale=_SCALE, growth_interval=100)
    before: Observation = {}
    after: Observation = {}
    scales = [scaler.get_scale()]
    for step in range(STEPS):
        _scaled_step(problem, optimizer, scaler, step, None)
        if step == 1:
            before = {name: _copy(value) for name, value in observed(problem, optimizer).items()}
            _scaled_step(problem, optimizer, scaler, step, bad)
            after = {name: _copy(value) for name, value in observed(problem, optimizer).items()}
            scales.append(scaler.get_scale())
    scales.append(scaler.state_dict()["scale"])
    return observed(problem, optimizer), before, after, scales


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _scaled_step(problem: Any, optimizer: Any, scaler: Any, step: int, bad: float | None) -> None:
    optimizer.zero_grad()
    parts = []
    for index, (parameter, gradient) in enumerate(
        zip(problem.parameters, problem.gradients[step], strict=True)
    ):
        weight = gradient.clone()
        if bad is not None and index == 1:
            weight.view(-1)[-1] = bad
        parts.append((parameter * weight).sum())
    scaler.scale(torch.stack(parts).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def _left_out(
    recorder: Recorder,
    sample: OptimizerSample,
    before: Observation,
    after: Observation,
    scales: list[float],
    label: str,
) -> None:
    for name, value in before.items():
        if isinstance(value, torch.Tensor):
            part_label = f"{name} of {sample.describe()} after a step to be left out ({label})"
            compare_exact(recorder, after.get(name), value, label=part_label, sample=sample.index)
    due = [_SCALE, _SCALE / 2, _SCALE / 2]
    text = f"the scales of {sample.describe()} ({label}) are {scales}, expected {due}."
    fact(recorder, scales == due, Kind.STATE, text, sample=sample.index)
