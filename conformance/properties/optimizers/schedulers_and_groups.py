"""Properties ``tensor-lr``, ``lr-scheduler``, ``param-groups`` and ``missing-gradients`` of optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_values, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.optimizers import Build, Observation, OptimizerProcedure, observe_parameters_and_state
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.copies import make_copier
from conformance.samples.optimizers import STEP_COUNT, OptimizationProblem, OptimizerSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: A learning rate that is exact in float32 and bfloat16.
_LEARNING_RATE = 2.0**-6


def has_no_learning_rate(sample: OptimizerSample) -> bool:
    """Return True if the sample does not set a learning rate and does not set ``capturable``."""
    return "lr" not in sample.options and not sample.capturable


def dtypes_for_tensor_learning_rate(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    if subject.info.only_supports_sparse_grads or subject.info.step_requires_closure:
        return []
    return [] if subject.name == "Adafactor" else common.first_dtype_only(target, subject)


def _take_steps_with_tensor_learning_rate(problem: OptimizationProblem, build: Build) -> Observation:
    return common.take_all_steps(
        problem, lambda parameters, **more: build(parameters, **{"lr": _LEARNING_RATE, **more})
    )


STEPS_WITH_RATE = OptimizerProcedure("given rate", _take_steps_with_tensor_learning_rate)


@register(
    "tensor-lr",
    subject_kind="optimizer",
    statement="A learning rate in a tensor, on the CPU or the device, has the same effect as a number.",
    documentation="generated/torch.optim.Adam.html",
    level="full",
    applies=dtypes_for_tensor_learning_rate,
    capabilities=("autograd",),
)
def check_tensor_learning_rate(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Take steps with a learning rate in a tensor, on the CPU and on the device, and compare with the
    reference, whose learning rate is a number.
    """
    for sample, reference in common.samples_with_references(
        target, subject, recorder, STEPS_WITH_RATE, 3, such_that=has_no_learning_rate
    ):
        for implementation, options in common.options_by_implementation(target, subject, sample).items():
            if implementation in (
                "foreach",
                "default",
            ):  # foreach accepts a tensor learning rate only if the optimizer is capturable
                continue
            for rate_device in dict.fromkeys((torch.device("cpu"), target.torch_device)):

                def steps_with_tensor_rate(
                    rate_device: torch.device = rate_device,
                    options: dict[str, Any] = options,
                    sample: OptimizerSample = sample,
                ) -> Any:
                    rate = torch.tensor(_LEARNING_RATE, device=rate_device)
                    problem = sample.problem(make_copier(target))

                    def build(parameters: Any, **more: Any) -> torch.optim.Optimizer:
                        return sample.build(parameters, lr=rate, **options)

                    return common.take_all_steps(problem, build), rate

                outcome = common.attempt_on_target(target, steps_with_tensor_rate)
                label = f"{implementation}, lr on {rate_device}"
                if common.require_success(
                    target, recorder, outcome, f"{sample.describe()} ({label})", sample.index
                ):
                    observation, rate = outcome.value
                    common.compare_observation(
                        target, recorder, subject, sample, observation, reference, label=label
                    )
                    text = f"the learning rate of {sample.describe()} ({label})"
                    compare_values(
                        recorder, rate, torch.tensor(_LEARNING_RATE), label=text, sample=sample.index
                    )


def dtypes_for_schedulers(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    return [] if not subject.info.scheduler_inputs else common.dtypes_of_dense_optimizer(target, subject)[:1]


def _scheduler_procedure(makers: Any) -> OptimizerProcedure:
    def steps_with_schedulers(problem: OptimizationProblem, build: Build) -> Observation:
        optimizer = build(problem.parameters)
        schedulers = [make(optimizer) for make in makers]
        rates = []
        for step in range(STEP_COUNT):
            problem.set_gradients(step)
            optimizer.step()
            for scheduler in schedulers:
                if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                    scheduler.step(1.0 + step)
                else:
                    scheduler.step()
            rates.append(float(optimizer.param_groups[0]["lr"]))
        observation = observe_parameters_and_state(problem, optimizer)
        observation.update({f"lr after step {step}": rate for step, rate in enumerate(rates)})
        return observation

    return OptimizerProcedure(f"schedulers {id(makers)}", steps_with_schedulers)


@register(
    "lr-scheduler",
    subject_kind="optimizer",
    statement="Schedulers set the same learning rates as on the CPU, and steps use these rates.",
    documentation="optim.html",
    level="full",
    applies=dtypes_for_schedulers,
    capabilities=("autograd",),
)
def check_schedulers(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Take steps with each scheduler of torch's database and compare learning rates and parameters with the
    reference.
    """
    for makers in subject.info.scheduler_inputs:
        procedure = _scheduler_procedure(makers)
        for sample, reference in common.samples_with_references(
            target, subject, recorder, procedure, 1, such_that=has_no_learning_rate
        ):
            for implementation, options in common.options_by_implementation(target, subject, sample).items():
                outcome = common.run_procedure(target, sample, procedure, options)
                label = f"{implementation}, with schedulers"
                if common.require_success(
                    target, recorder, outcome, f"{sample.describe()} ({label})", sample.index
                ):
                    common.compare_observation(
                        target, recorder, subject, sample, outcome.value, reference, label=label
                    )


def dtypes_for_parameter_groups(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    return common.dtypes_of_dense_optimizer(target, subject)[:1] if subject.info.supports_param_groups else []


def _take_steps_with_parameter_groups(problem: OptimizationProblem, build: Build) -> Observation:
    """Take steps with two parameter groups that have different learning rates. Add a third group before the
    second step.
    """
    first, second, third = problem.parameters[:1], problem.parameters[1:2], problem.parameters[2:]
    groups = [
        {"params": first, "lr": _LEARNING_RATE},
        {"params": second, "lr": _LEARNING_RATE / 4, "weight_decay": 0.25},
    ]
    optimizer = build(groups, lr=_LEARNING_RATE * 2)
    for step in range(STEP_COUNT):
        if step == 1:
            optimizer.add_param_group({"params": third})
        problem.set_gradients(step)
        optimizer.step()
    return observe_parameters_and_state(problem, optimizer)


STEPS_WITH_GROUPS = OptimizerProcedure("groups", _take_steps_with_parameter_groups)


@register(
    "param-groups",
    subject_kind="optimizer",
    statement="Each parameter group is updated with its own options, including groups that are added later.",
    documentation="optim.html",
    level="training",
    applies=dtypes_for_parameter_groups,
    capabilities=("autograd",),
)
def check_parameter_groups(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Take steps with three parameter groups and compare parameters and states with the reference."""
    for sample, reference in common.samples_with_references(
        target, subject, recorder, STEPS_WITH_GROUPS, 2, such_that=has_no_learning_rate
    ):
        for implementation, options in common.options_by_implementation(target, subject, sample).items():
            outcome = common.run_procedure(target, sample, STEPS_WITH_GROUPS, options)
            label = f"{implementation}, three groups"
            if common.require_success(
                target, recorder, outcome, f"{sample.describe()} ({label})", sample.index
            ):
                common.compare_observation(
                    target, recorder, subject, sample, outcome.value, reference, label=label
                )


def dtypes_for_missing_gradients(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    return common.dtypes_of_dense_optimizer(target, subject)[:1]


@register(
    "missing-gradients",
    subject_kind="optimizer",
    statement="Parameters without a gradient keep their bits and get no state; zero_grad clears "
    "gradients or sets them to zero.",
    documentation="generated/torch.optim.Optimizer.zero_grad.html",
    level="training",
    applies=dtypes_for_missing_gradients,
    capabilities=("autograd",),
)
def check_missing_gradients(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Take steps in which some parameters have no gradient, and check parameters, states and zero_grad with
    ``set_to_none`` True and False.
    """
    device = target.torch_device
    # Adagrad creates states for all parameters in its constructor, also for parameters without a gradient.
    early = subject.name == "Adagrad"
    for sample in common.select_samples(target, subject, recorder, 2, such_that=has_no_learning_rate):
        for implementation, options in common.options_by_implementation(target, subject, sample).items():

            def steps_with_missing_gradients(
                options: dict[str, Any] = options, sample: OptimizerSample = sample
            ) -> Any:
                problem = sample.problem(make_copier(target, device))
                optimizer = sample.build(problem.parameters, **options)
                optimizer.step()
                states = len(optimizer.state)
                problem.set_gradients(0)
                for parameter in problem.parameters[1:]:
                    parameter.grad = None
                optimizer.step()
                has_state = [parameter in optimizer.state for parameter in problem.parameters]
                optimizer.zero_grad(set_to_none=False)
                grad = problem.parameters[0].grad
                zeros = None if grad is None else grad.clone()
                optimizer.zero_grad()
                return problem.parameters, states, has_state, zeros, problem.parameters[0].grad

            outcome = common.attempt_on_target(target, steps_with_missing_gradients)
            description = f"{sample.describe()} ({implementation})"
            if not common.require_success(target, recorder, outcome, description, sample.index):
                continue
            parameters, states, has_state, zeros, cleared = outcome.value
            fact(
                recorder,
                early or states == 0,
                Kind.STATE,
                f"{description} keeps states of parameters without gradients.",
            )
            text = f"{description} keeps a state of a parameter without a gradient."
            fact(recorder, early or not any(has_state[1:]), Kind.STATE, text, sample=sample.index)
            for index, parameter in enumerate(parameters[1:], 1):
                label = f"parameter {index} without a gradient of {description}"
                compare_values(
                    recorder, parameter, sample.parameters[index], label=label, sample=sample.index
                )
            moved = not torch.equal(parameters[0].detach().cpu(), sample.parameters[0])
            fact(recorder, moved, Kind.VALUE, f"{description} does not update the parameter with a gradient.")
            if fact(
                recorder,
                zeros is not None,
                Kind.STATE,
                f"{description}: zero_grad(set_to_none=False) removes the gradient.",
            ):
                compare_values(
                    recorder,
                    zeros,
                    torch.zeros_like(sample.parameters[0]),
                    label=f"zero_grad of {description}",
                )
            fact(
                recorder,
                cleared is None,
                Kind.STATE,
                f"{description}: zero_grad() does not remove the gradient.",
            )
