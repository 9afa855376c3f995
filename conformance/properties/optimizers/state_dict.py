"""A run that is saved, loaded and continued ends like an uninterrupted one."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_exact, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.optimizers import Observation, observed
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.optimizers import STEPS, OptimizerSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_SAVED_AFTER = 2


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.dense(target, subject)[:1]


@register(
    "state-dict",
    subject_kind="optimizer",
    statement="A run saved after two steps and loaded, through either device, ends as an uninterrupted one.",
    documentation="generated/torch.optim.Optimizer.state_dict.html",
    level="training",
    applies=applies,
    capabilities=("autograd", "serialization"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    device, host = target.torch_device, torch.device("cpu")
    routes = (
        ("device to device", device, device),
        ("device to CPU to device", device, host),
        ("CPU", host, host),
    )
    for sample, want in common.cases(target, subject, recorder, common.STEP, 3):
        for word, options in common.implementations(target, subject, sample).items():
            for route, start, place in routes:
                if start.type == "cpu" and sample.capturable:
                    continue
                outcome = common.on_target(
                    target,
                    lambda start=start, place=place, options=options, sample=sample: _interrupted(  # type: ignore[misc]
                        sample, options, start, place, device
                    ),
                )
                what = f"{word}, {route}"
                if common.succeeded(target, recorder, outcome, f"{sample.describe()} ({what})", sample.index):
                    shown, untouched = outcome.value
                    common.compare_observation(target, recorder, subject, sample, shown, want, label=what)
                    _compare_saved(recorder, sample, untouched, what)


def _interrupted(
    sample: OptimizerSample,
    options: dict[str, Any],
    start: torch.device,
    place: torch.device,
    end: torch.device,
) -> tuple[Observation, tuple[Any, Any]]:
    """Take two steps on ``start``, go through a file loaded to ``place``, and take the rest on ``end``."""
    problem = sample.problem(start)
    optimizer = sample.build(problem.parameters, **options)
    for step in range(_SAVED_AFTER):
        problem.give(step)
        optimizer.step()
    file = io.BytesIO()
    torch.save((optimizer.state_dict(), [parameter.detach() for parameter in problem.parameters]), file)
    file.seek(0)
    state, values = torch.load(file, map_location=place, weights_only=True)
    file.seek(0)
    untouched, _ = torch.load(file, map_location=place, weights_only=True)
    rest = sample.problem(end)
    with torch.no_grad():
        for parameter, value in zip(rest.parameters, values, strict=True):
            parameter.copy_(value)
    resumed = sample.build(rest.parameters, **options)
    resumed.load_state_dict(state)
    for step in range(_SAVED_AFTER, STEPS):
        rest.give(step)
        resumed.step()
    return observed(rest, resumed), (untouched, optimizer.state_dict())


def _compare_saved(recorder: Recorder, sample: OptimizerSample, dicts: tuple[Any, Any], label: str) -> None:
    """Check that the tensors read are bit for bit those written."""
    read, written = dicts
    text = f"the state dict of {sample.describe()} ({label}) lists other parameters after loading."
    fact(recorder, set(read["state"]) == set(written["state"]), Kind.STATE, text, sample=sample.index)
    for index, states in written["state"].items():
        for key, value in states.items():
            if isinstance(value, torch.Tensor) and index in read["state"]:
                part_label = f"the saved {key} of parameter {index} of {sample.describe()} ({label})"
                compare_exact(
                    recorder, read["state"][index][key], value, label=part_label, sample=sample.index
                )
