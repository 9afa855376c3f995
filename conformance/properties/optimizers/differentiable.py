"""Gradients that flow through the steps of an optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.optimizers import Build, Observation, Procedure
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.properties.optimizers.schedulers_and_groups import plain
from conformance.samples.optimizers import STEPS, Problem
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_STEPS = 2
#: Optimizers that overwrite tensors which the backward of an earlier step needs, on the CPU too.
_ONE_STEP = ("Adamax", "Rprop")
#: Options that keep the derivatives well conditioned.
_DAMPING = 0.5
_BETAS = (0.5, 0.75)


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if "differentiable" not in subject.info.supported_impls:
        return []
    return [name for name in common.dense(target, subject) if name in ("float32", "float64")][:1]


def _through(problem: Problem, build: Build, steps: int, options: dict[str, Any]) -> Observation:
    """Return gradients of a weighted sum of the moved parameters by their start and by each gradient."""
    kept = [index for index, parameter in enumerate(problem.parameters) if parameter.numel()]
    starts = [problem.parameters[index] for index in kept]
    pushes = [
        [problem.gradients[step][index].requires_grad_(True) for index in kept] for step in range(steps)
    ]
    with torch.enable_grad():
        moved = [start.clone() for start in starts]
        optimizer = build(moved, **options)
        for step in range(steps):
            for parameter, push in zip(moved, pushes[step], strict=True):
                parameter.grad = push.clone()
            optimizer.step()
        weights = [problem.gradients[STEPS - 1][index] for index in kept]
        total = torch.stack([(end * weight).sum() for end, weight in zip(moved, weights, strict=True)])
        sources = [*starts, *(push for step in pushes for push in step)]
        gradients = torch.autograd.grad(total.sum(), sources, allow_unused=True)
    observation: Observation = {
        f"moved {index}": end.detach() for index, end in zip(kept, moved, strict=True)
    }
    for number, (source, gradient) in enumerate(zip(sources, gradients, strict=True)):
        observation[f"gradient {number}"] = torch.zeros_like(source) if gradient is None else gradient
    return observation


def _procedure(subject: Subject) -> Procedure:
    steps = 1 if subject.name in _ONE_STEP else _STEPS
    options: dict[str, Any] = {"differentiable": True}
    if "eps" in inspect.signature(subject.info.optim_cls).parameters and subject.name != "Adafactor":
        # Without it a step has the size of the learning rate whatever the gradient, and the derivative by
        # the gradient is the small remainder of a cancellation.
        options["eps"] = _DAMPING
    if "betas" in inspect.signature(subject.info.optim_cls).parameters:
        options["betas"] = _BETAS  # 1 - beta ** step is computed in tensors, and cancels for betas near 1
    return Procedure("differentiable", lambda problem, build: _through(problem, build, steps, options))


@register(
    "differentiable",
    subject_kind="optimizer",
    statement="With differentiable=True gradients flow through the steps to the start and to the gradients.",
    documentation="optim.html",
    level="full",
    applies=applies,
    capabilities=("autograd",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    procedure = _procedure(subject)
    for sample, want in common.cases(target, subject, recorder, procedure, 4, such_that=plain):
        options = common.implementations(target, subject, sample)["for-loop"]
        outcome = common.run_on(target, sample, procedure, options)
        what = "differentiable"
        if common.succeeded(target, recorder, outcome, f"{sample.describe()} ({what})", sample.index):
            common.compare_observation(target, recorder, subject, sample, outcome.value, want, label=what)
