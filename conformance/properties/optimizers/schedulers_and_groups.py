"""Options around the update rule: tensor learning rates, schedulers, groups of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_values, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.optimizers import Build, Observation, Procedure, observed
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.optimizers import STEPS, OptimizerSample, Problem
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: A learning rate that float32 and bfloat16 hold exactly.
_RATE = 2.0**-6


def plain(sample: OptimizerSample) -> bool:
    """Return whether the sample neither brings a learning rate nor asks for capturable."""
    return "lr" not in sample.options and not sample.capturable


def applies_tensor(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.info.only_supports_sparse_grads or subject.info.step_requires_closure:
        return []
    return [] if subject.name == "Adafactor" else common.first_dtype(target, subject)


def _with_rate(problem: Problem, build: Build) -> Observation:
    return common.stepped(problem, lambda parameters, **more: build(parameters, **{"lr": _RATE, **more}))


RATE = Procedure("given rate", _with_rate)


@register(
    "tensor-lr",
    subject_kind="optimizer",
    statement="A learning rate in a tensor, on the CPU or the device, works as the number that it holds.",
    documentation="optim.html",
    level="full",
    applies=applies_tensor,
    capabilities=("autograd",),
)
def check_tensor(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in common.cases(target, subject, recorder, RATE, 3, such_that=plain):
        for word, options in common.implementations(target, subject, sample).items():
            if word in ("foreach", "default"):  # foreach takes tensors only if the optimizer is capturable
                continue
            for place in dict.fromkeys((torch.device("cpu"), target.torch_device)):

                def run(
                    place: torch.device = place,
                    options: dict[str, Any] = options,
                    sample: OptimizerSample = sample,
                ) -> Any:
                    rate = torch.tensor(_RATE, device=place)
                    problem = sample.problem(target.torch_device)

                    def build(parameters: Any, **more: Any) -> torch.optim.Optimizer:
                        return sample.build(parameters, lr=rate, **options)

                    return common.stepped(problem, build), rate

                outcome = common.on_target(target, run)
                what = f"{word}, lr on {place}"
                if common.succeeded(target, recorder, outcome, f"{sample.describe()} ({what})", sample.index):
                    shown, rate = outcome.value
                    common.compare_observation(target, recorder, subject, sample, shown, want, label=what)
                    text = f"the learning rate of {sample.describe()} ({what})"
                    compare_values(recorder, rate, torch.tensor(_RATE), label=text, sample=sample.index)


def applies_scheduler(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return [] if not subject.info.scheduler_inputs else common.dense(target, subject)[:1]


def _scheduled(makers: Any) -> Procedure:
    def run(problem: Problem, build: Build) -> Observation:
        optimizer = build(problem.parameters)
        schedulers = [make(optimizer) for make in makers]
        rates = []
        for step in range(STEPS):
            problem.give(step)
            optimizer.step()
            for scheduler in schedulers:
                if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                    scheduler.step(1.0 + step)
                else:
                    scheduler.step()
            rates.append(float(optimizer.param_groups[0]["lr"]))
        observation = observed(problem, optimizer)
        observation.update({f"lr after step {step}": rate for step, rate in enumerate(rates)})
        return observation

    return Procedure(f"schedulers {id(makers)}", run)


@register(
    "lr-scheduler",
    subject_kind="optimizer",
    statement="Schedulers set the same learning rates as on the CPU, and the parameters follow them.",
    documentation="optim.html",
    level="full",
    applies=applies_scheduler,
    capabilities=("autograd",),
)
def check_scheduler(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for makers in subject.info.scheduler_inputs:
        procedure = _scheduled(makers)
        for sample, want in common.cases(target, subject, recorder, procedure, 1, such_that=plain):
            for word, options in common.implementations(target, subject, sample).items():
                outcome = common.run_on(target, sample, procedure, options)
                what = f"{word}, with schedulers"
                if common.succeeded(target, recorder, outcome, f"{sample.describe()} ({what})", sample.index):
                    common.compare_observation(
                        target, recorder, subject, sample, outcome.value, want, label=what
                    )


def applies_groups(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.dense(target, subject)[:1] if subject.info.supports_param_groups else []


def _grouped(problem: Problem, build: Build) -> Observation:
    """Step two groups with learning rates of their own, and a third one from the second step on."""
    first, second, third = problem.parameters[:1], problem.parameters[1:2], problem.parameters[2:]
    groups = [{"params": first, "lr": _RATE}, {"params": second, "lr": _RATE / 4, "weight_decay": 0.25}]
    optimizer = build(groups, lr=_RATE * 2)
    for step in range(STEPS):
        if step == 1:
            optimizer.add_param_group({"params": third})
        problem.give(step)
        optimizer.step()
    return observed(problem, optimizer)


GROUPS = Procedure("groups", _grouped)


@register(
    "param-groups",
    subject_kind="optimizer",
    statement="Each group of parameters is moved with its own options, groups that come later included.",
    documentation="optim.html",
    level="training",
    applies=applies_groups,
    capabilities=("autograd",),
)
def check_groups(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in common.cases(target, subject, recorder, GROUPS, 2, such_that=plain):
        for word, options in common.implementations(target, subject, sample).items():
            outcome = common.run_on(target, sample, GROUPS, options)
            what = f"{word}, three groups"
            if common.succeeded(target, recorder, outcome, f"{sample.describe()} ({what})", sample.index):
                common.compare_observation(target, recorder, subject, sample, outcome.value, want, label=what)


def applies_missing(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.dense(target, subject)[:1]


@register(
    "missing-gradients",
    subject_kind="optimizer",
    statement="Parameters without a gradient keep their bits and get no state; zero_grad clears or zeroes.",
    documentation="generated/torch.optim.Optimizer.zero_grad.html",
    level="training",
    applies=applies_missing,
    capabilities=("autograd",),
)
def check_missing(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    device = target.torch_device
    # Adagrad makes its states when it is built, and they alone move nothing.
    early = subject.name == "Adagrad"
    for sample in common.chosen(target, subject, recorder, 2, such_that=plain):
        for word, options in common.implementations(target, subject, sample).items():

            def run(options: dict[str, Any] = options, sample: OptimizerSample = sample) -> Any:
                problem = sample.problem(device)
                optimizer = sample.build(problem.parameters, **options)
                optimizer.step()
                states = len(optimizer.state)
                problem.give(0)
                for parameter in problem.parameters[1:]:
                    parameter.grad = None
                optimizer.step()
                known = [parameter in optimizer.state for parameter in problem.parameters]
                optimizer.zero_grad(set_to_none=False)
                grad = problem.parameters[0].grad
                zeros = None if grad is None else grad.clone()
                optimizer.zero_grad()
                return problem.parameters, states, known, zeros, problem.parameters[0].grad

            outcome = common.on_target(target, run)
            what = f"{sample.describe()} ({word})"
            if not common.succeeded(target, recorder, outcome, what, sample.index):
                continue
            parameters, states, known, zeros, cleared = outcome.value
            fact(
                recorder,
                early or states == 0,
                Kind.STATE,
                f"{what} keeps states of parameters without gradients.",
            )
            text = f"{what} keeps a state of a parameter without a gradient."
            fact(recorder, early or not any(known[1:]), Kind.STATE, text, sample=sample.index)
            for index, parameter in enumerate(parameters[1:], 1):
                label = f"parameter {index} without a gradient of {what}"
                compare_values(
                    recorder, parameter, sample.parameters[index], label=label, sample=sample.index
                )
            moved = not torch.equal(parameters[0].detach().cpu(), sample.parameters[0])
            fact(recorder, moved, Kind.VALUE, f"{what} does not move the parameter with a gradient.")
            if fact(recorder, zeros is not None, Kind.STATE, f"{what}: zero_grad(set_to_none=False) clears."):
                compare_values(
                    recorder, zeros, torch.zeros_like(sample.parameters[0]), label=f"zero_grad of {what}"
                )
            fact(recorder, cleared is None, Kind.STATE, f"{what}: zero_grad() leaves a gradient.")
