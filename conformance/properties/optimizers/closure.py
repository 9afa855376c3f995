"""Steps that evaluate the loss themselves."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.optimizers import Build, Observation, Procedure, observed
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.optimizers import Problem
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Few steps: near the minimum the differences of a quasi-Newton method are made of rounding.
_STEPS = 2


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.info.only_supports_sparse_grads:
        return []
    return [name for name in common.dtypes_of(target, subject) if name in ("float32", "float64")]


def _closed(problem: Problem, build: Build) -> Observation:
    """Take steps on a sum of weighted squares.

    Its targets and weights are the sample's first two gradients.
    """
    optimizer = build(problem.parameters)
    goals, weights = problem.gradients[0], [1 + gradient.abs() for gradient in problem.gradients[1]]
    graphs: list[bool] = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        graphs.append(torch.is_grad_enabled())
        parts = [
            ((parameter - goal).square() * weight).sum()
            for parameter, goal, weight in zip(problem.parameters, goals, weights, strict=True)
        ]
        loss = torch.stack(parts).sum() + 1.0  # so that it rounds at a known size
        torch.autograd.backward(loss)
        return loss

    losses = [optimizer.step(closure) for _ in range(_STEPS)]  # type: ignore[arg-type]
    everything = observed(problem, optimizer)
    observation = {key: value for key, value in everything.items() if key.startswith("parameter")}
    for step, loss in enumerate(losses):
        observation[f"loss {step}"] = torch.as_tensor(loss).detach().reshape(1)
    observation["gradients enabled in the closure"] = float(all(graphs))
    return observation


CLOSED = Procedure("closure", _closed)


@register(
    "closure",
    subject_kind="optimizer",
    statement="step(closure) returns the loss before the step, enables gradients, and moves as on the CPU.",
    documentation="optim.html",
    level="training",
    applies=applies,
    capabilities=("autograd",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    limit = None if subject.info.step_requires_closure else 2
    for sample, want in common.cases(target, subject, recorder, CLOSED, limit):
        for word, options in common.implementations(target, subject, sample).items():
            outcome = common.run_on(target, sample, CLOSED, options)
            what = f"{word}, with a closure"
            if common.succeeded(target, recorder, outcome, f"{sample.describe()} ({what})", sample.index):
                common.compare_observation(target, recorder, subject, sample, outcome.value, want, label=what)
