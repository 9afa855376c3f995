"""Property ``differentiable``: with ``differentiable=True``, autograd differentiates through optimizer
steps.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.optimizers import Build, Observation, OptimizerProcedure
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.properties.optimizers.schedulers_and_groups import has_no_learning_rate
from conformance.samples.optimizers import STEP_COUNT, OptimizationProblem
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_STEP_COUNT = 2
#: Optimizers that are checked with a single step: a second step overwrites tensors that the backward pass of
#: the first step needs, on the CPU too.
_ONE_STEP = ("Adamax", "Rprop")
#: Values of ``eps`` and ``betas`` with which the derivatives are well conditioned.
_DAMPING = 0.5
_BETAS = (0.5, 0.75)


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    if "differentiable" not in subject.info.supported_impls:
        return []
    return [
        name for name in common.dtypes_of_dense_optimizer(target, subject) if name in ("float32", "float64")
    ][:1]


def _gradients_through_steps(
    problem: OptimizationProblem, build: Build, steps: int, options: dict[str, Any]
) -> Observation:
    """Return the gradients of a weighted sum of the updated parameters with respect to the initial parameters
    and the gradients of each step.
    """
    parameter_indices = [index for index, parameter in enumerate(problem.parameters) if parameter.numel()]
    starts = [problem.parameters[index] for index in parameter_indices]
    step_gradients = [
        [problem.gradients[step][index].requires_grad_(True) for index in parameter_indices]
        for step in range(steps)
    ]
    with torch.enable_grad():
        updated_parameters = [start.clone() for start in starts]
        optimizer = build(updated_parameters, **options)
        for step in range(steps):
            for parameter, gradient in zip(updated_parameters, step_gradients[step], strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
        weights = [problem.gradients[STEP_COUNT - 1][index] for index in parameter_indices]
        total = torch.stack(
            [(end * weight).sum() for end, weight in zip(updated_parameters, weights, strict=True)]
        )
        sources = [*starts, *(gradient for step in step_gradients for gradient in step)]
        source_gradients = torch.autograd.grad(total.sum(), sources, allow_unused=True)
    observation: Observation = {
        f"moved {index}": end.detach()
        for index, end in zip(parameter_indices, updated_parameters, strict=True)
    }
    for number, (source, source_gradient) in enumerate(zip(sources, source_gradients, strict=True)):
        observation[f"gradient {number}"] = (
            torch.zeros_like(source) if source_gradient is None else source_gradient
        )
    return observation


def _differentiable_procedure(subject: Subject) -> OptimizerProcedure:
    steps = 1 if subject.name in _ONE_STEP else _STEP_COUNT
    options: dict[str, Any] = {"differentiable": True}
    if "eps" in inspect.signature(subject.info.optim_cls).parameters and subject.name != "Adafactor":
        # With a small ``eps``, the size of a step is the learning rate for every gradient. The derivative of
        # the step with respect to the gradient would then be a small difference of large terms.
        options["eps"] = _DAMPING
    if "betas" in inspect.signature(subject.info.optim_cls).parameters:
        options["betas"] = _BETAS  # in 1 - beta ** step, digits cancel if beta is near 1
    return OptimizerProcedure(
        "differentiable", lambda problem, build: _gradients_through_steps(problem, build, steps, options)
    )


@register(
    "differentiable",
    subject_kind="optimizer",
    statement="With differentiable=True, gradients flow through steps to the initial parameters "
    "and the gradients.",
    documentation="generated/torch.optim.SGD.html",
    level="full",
    applies=dtypes_to_check,
    capabilities=("autograd",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Differentiate through optimizer steps on the target and compare the gradients with the reference."""
    procedure = _differentiable_procedure(subject)
    for sample, reference in common.samples_with_references(
        target, subject, recorder, procedure, 4, such_that=has_no_learning_rate
    ):
        options = common.options_by_implementation(target, subject, sample)["for-loop"]
        outcome = common.run_procedure(target, sample, procedure, options)
        label = "differentiable"
        if common.require_success(target, recorder, outcome, f"{sample.describe()} ({label})", sample.index):
            common.compare_observation(
                target, recorder, subject, sample, outcome.value, reference, label=label
            )
