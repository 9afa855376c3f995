"""Property ``state-dict``: an optimizer run that is saved, loaded and continued equals an
uninterrupted run.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import torch

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

_SAVED_AFTER = 2


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    return common.dtypes_of_dense_optimizer(target, subject)[:1]


@register(
    "state-dict",
    subject_kind="optimizer",
    statement="A run that is saved after two steps and loaded on either device gives the results "
    "of an uninterrupted run.",
    documentation="generated/torch.optim.Optimizer.load_state_dict.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd", "serialization"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Save a run after two steps, load and continue it on the same or another device, and compare with the
    reference.
    """
    device, host = target.torch_device, torch.device("cpu")
    routes = (
        ("device to device", device, device),
        ("device to CPU to device", device, host),
        ("CPU", host, host),
    )
    for sample, reference in common.samples_with_references(target, subject, recorder, common.STEP, 3):
        for implementation, options in common.options_by_implementation(target, subject, sample).items():
            for route, start, loading_device in routes:
                if start.type == "cpu" and sample.capturable:
                    continue
                outcome = common.attempt_on_target(
                    target,
                    lambda start=start, loading_device=loading_device, options=options, sample=sample: (
                        _run_with_interruption(  # type: ignore[misc]
                            target, sample, options, start, loading_device, device
                        )
                    ),
                )
                label = f"{implementation}, {route}"
                if common.require_success(
                    target, recorder, outcome, f"{sample.describe()} ({label})", sample.index
                ):
                    observation, untouched = outcome.value
                    common.compare_observation(
                        target, recorder, subject, sample, observation, reference, label=label
                    )
                    _compare_loaded_state(recorder, sample, untouched, label)


def _run_with_interruption(
    target: Target,
    sample: OptimizerSample,
    options: dict[str, Any],
    start: torch.device,
    loading_device: torch.device,
    end: torch.device,
) -> tuple[Observation, tuple[Any, Any]]:
    """Take the first steps on ``start`` and save. Load the states to ``loading_device``, and take the
    remaining steps on ``end``.

    Return the observation of the continued run, and the pair (loaded state dict, saved state dict).
    """
    problem = sample.problem(make_copier(target, start))
    optimizer = sample.build(problem.parameters, **options)
    for step in range(_SAVED_AFTER):
        problem.set_gradients(step)
        optimizer.step()
    file = io.BytesIO()
    torch.save((optimizer.state_dict(), [parameter.detach() for parameter in problem.parameters]), file)
    file.seek(0)
    state, values = torch.load(file, map_location=loading_device, weights_only=True)
    file.seek(0)
    untouched, _ = torch.load(file, map_location=loading_device, weights_only=True)
    resumed_problem = sample.problem(make_copier(target, end))
    with torch.no_grad():
        for parameter, value in zip(resumed_problem.parameters, values, strict=True):
            parameter.copy_(value)
    resumed = sample.build(resumed_problem.parameters, **options)
    resumed.load_state_dict(state)
    for step in range(_SAVED_AFTER, STEP_COUNT):
        resumed_problem.set_gradients(step)
        resumed.step()
    return observe_parameters_and_state(resumed_problem, resumed), (untouched, optimizer.state_dict())


def _compare_loaded_state(
    recorder: Recorder, sample: OptimizerSample, dicts: tuple[Any, Any], label: str
) -> None:
    """Check that the loaded tensors equal the saved tensors bit for bit."""
    loaded, written = dicts
    text = f"the state dict of {sample.describe()} ({label}) lists different parameters after loading."
    fact(recorder, set(loaded["state"]) == set(written["state"]), Kind.STATE, text, sample=sample.index)
    for index, states in written["state"].items():
        for key, value in states.items():
            if isinstance(value, torch.Tensor) and index in loaded["state"]:
                part_label = f"the saved {key} of parameter {index} of {sample.describe()} ({label})"
                compare_exact(
                    recorder, loaded["state"][index][key], value, label=part_label, sample=sample.index
                )
