"""Property ``closure``: optimizer steps with a closure that computes the loss agree with the reference."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.optimizers import Build, Observation, OptimizerProcedure, observe_parameters_and_state
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.optimizers import OptimizationProblem
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The number of steps is small, because near the minimum a quasi-Newton method divides differences that
#: consist of rounding errors.
_STEP_COUNT = 2


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    if subject.info.only_supports_sparse_grads:
        return []
    return [name for name in common.supported_dtypes(target, subject) if name in ("float32", "float64")]


def _step_with_closure(problem: OptimizationProblem, build: Build) -> Observation:
    """Take steps that minimise a sum of weighted squared distances, and return losses and parameters.

    The first two gradients of the sample are the target points and the weights.
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
        loss = torch.stack(parts).sum() + 1.0  # with the constant 1, rounding errors are relative to 1
        torch.autograd.backward(loss)
        return loss

    losses = [optimizer.step(closure) for _ in range(_STEP_COUNT)]  # type: ignore[arg-type]
    everything = observe_parameters_and_state(problem, optimizer)
    observation = {key: value for key, value in everything.items() if key.startswith("parameter")}
    for step, loss in enumerate(losses):
        observation[f"loss {step}"] = torch.as_tensor(loss).detach().reshape(1)
    observation["gradients enabled in the closure"] = float(all(graphs))
    return observation


CLOSURE_STEPS = OptimizerProcedure("closure", _step_with_closure)


@register(
    "closure",
    subject_kind="optimizer",
    statement="step(closure) returns the loss before the step, enables gradients in the closure, and "
    "updates parameters as on the CPU.",
    documentation="optim.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Take steps with a closure in each implementation and compare losses and parameters with the
    reference.
    """
    limit = None if subject.info.step_requires_closure else 2
    for sample, reference in common.samples_with_references(target, subject, recorder, CLOSURE_STEPS, limit):
        for implementation, options in common.options_by_implementation(target, subject, sample).items():
            outcome = common.run_procedure(target, sample, CLOSURE_STEPS, options)
            label = f"{implementation}, with a closure"
            if common.require_success(
                target, recorder, outcome, f"{sample.describe()} ({label})", sample.index
            ):
                common.compare_observation(
                    target, recorder, subject, sample, outcome.value, reference, label=label
                )
