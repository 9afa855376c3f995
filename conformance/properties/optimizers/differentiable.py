"""Gradients that flow through the steps of an optimizer."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.optimizer_oracle import Build, Observation, Procedure
from conformance.optimizer_samples import Problem
from conformance.properties.optimizers import _common as common
from conformance.properties.optimizers.options import plain
from conformance.property import register
from conformance.recorder import Recorder
from conformance.subjects import Subject
from conformance.target import Target

_STEPS = 2


def applies(target: Target, subject: Subject) -> Sequence[str]:
    if "differentiable" not in subject.info.supported_impls:
        return []
    return [name for name in common.dense(target, subject) if name in ("float32", "float64")][:1]


def _through(problem: Problem, build: Build) -> Observation:
    """The gradient of a weighted sum of the moved parameters with respect to the start and to each gradient."""
    starts = [one for one in problem.parameters if one.numel()]
    kept = [index for index, one in enumerate(problem.parameters) if one.numel()]
    pushes = [
        [problem.gradients[step][index].requires_grad_(True) for index in kept] for step in range(_STEPS)
    ]
    with torch.enable_grad():
        moved = [one.clone() for one in starts]
        optimizer = build(moved, differentiable=True)
        for step in range(_STEPS):
            for one, push in zip(moved, pushes[step], strict=True):
                one.grad = push.clone()
            optimizer.step()
        total = torch.stack(
            [(one * problem.gradients[3][index]).sum() for one, index in zip(moved, kept, strict=True)]
        )
        sources = [*starts, *(push for step in pushes for push in step)]
        gradients = torch.autograd.grad(total.sum(), sources, allow_unused=True)
    found: Observation = {f"moved {index}": one.detach() for index, one in zip(kept, moved, strict=True)}
    for number, (source, gradient) in enumerate(zip(sources, gradients, strict=True)):
        found[f"gradient {number}"] = torch.zeros_like(source) if gradient is None else gradient
    return found


THROUGH = Procedure("differentiable", _through)


@register(
    "differentiable",
    subject_kind="optimizer",
    statement="With differentiable=True the gradients of moved parameters flow to their start and their gradients.",
    level="full",
    applies=applies,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    for sample, want in common.cases(target, subject, recorder, THROUGH, 4, such_that=plain):
        options = common.implementations(target, subject, sample)["for-loop"]
        outcome = common.run_on(target, sample, THROUGH, options)
        what = "differentiable"
        if common.succeeded(target, recorder, outcome, f"{sample.describe()} ({what})", sample.index):
            common.compare_observation(target, recorder, subject, sample, outcome.value, want, what=what)
