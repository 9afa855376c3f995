"""Copies of a module on the device: deepcopy, pickle, torch.save of the whole module."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.checking.compare import fact
from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.observed_modules import FORWARD
from conformance.properties.modules import _common as common
from conformance.properties.modules.state_dict import loaded, saved
from conformance.samples.modules import ModuleSample
from conformance.subjects.databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    return common.first_dtype(target, subject)


def _by_pickle(module: torch.nn.Module) -> torch.nn.Module:
    found: torch.nn.Module = pickle.loads(pickle.dumps(module))
    return found


def _by_saving(module: torch.nn.Module) -> torch.nn.Module:
    found: torch.nn.Module = loaded(saved(module), weights_only=False)
    return found


@register(
    "copies",
    subject_kind="module",
    statement="deepcopy, pickle and torch.save give the same bits on the device, in memory of their own.",
    level="core",
    applies=applies,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    ways: list[tuple[str, Callable[[torch.nn.Module], torch.nn.Module]]] = [("deepcopy", copy.deepcopy)]
    if target.capable("serialization"):
        ways += [("pickle", _by_pickle), ("torch.save", _by_saving)]
    device = common.device_of(target)
    for sample, want in common.cases(subject, recorder, FORWARD, 1):
        for what, make in ways:

            def copied(sample: ModuleSample = sample, make: Callable[[Any], Any] = make) -> Any:
                module = sample.module().to(device)
                other = make(module)
                return module, other, FORWARD.run(make(module), sample.arguments(device), None)

            outcome = common.on_target(target, copied)
            text = f"{what} of {sample.describe()}"
            if not common.succeeded(target, recorder, outcome, text, sample.index):
                continue
            module, other, shown = outcome.value
            common.compare_observation(target, recorder, subject, sample, shown, want, what=f"after {what} ")
            reference = common.state_of(sample.module())
            state = common.state_of(other)
            if not common.compare_state(
                recorder, state, reference, what=text, sample=sample.index, device=device
            ):
                continue
            good = {name: one.requires_grad for name, one in state.items()} == {
                name: one.requires_grad for name, one in reference.items()
            }
            fact(recorder, good, Kind.STATE, f"{text} changed requires_grad.", sample=sample.index)
            own = {
                one.untyped_storage().data_ptr() for one in common.state_of(module).values() if one.numel()
            }
            alone = all(one.untyped_storage().data_ptr() not in own for one in state.values() if one.numel())
            fact(
                recorder,
                alone,
                Kind.ALIASING,
                f"{text} shares memory with the original.",
                sample=sample.index,
            )
            shared = len({id(one) for one in state.values()}) == len({id(one) for one in reference.values()})
            fact(recorder, shared, Kind.ALIASING, f"{text} shares other parameters.", sample=sample.index)
