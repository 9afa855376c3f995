"""Copies of a module on the device: deepcopy, pickle, torch.save of the whole module."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.observed_modules import FORWARD
from conformance.properties.modules import _module_checks as common
from conformance.properties.modules.state_dict import loaded, saved
from conformance.samples.modules import ModuleSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.first_dtype(target, subject)


def _by_pickle(module: torch.nn.Module) -> torch.nn.Module:
    copied: torch.nn.Module = pickle.loads(pickle.dumps(module))
    return copied


def _by_saving(module: torch.nn.Module) -> torch.nn.Module:
    copied: torch.nn.Module = loaded(saved(module), weights_only=False)
    return copied


@register(
    "copies",
    subject_kind="module",
    statement="deepcopy, pickle and torch.save give the same bits on the device, in memory of their own.",
    documentation="notes/serialization.html",
    level="core",
    applies=applies,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    ways: list[tuple[str, Callable[[torch.nn.Module], torch.nn.Module]]] = [("deepcopy", copy.deepcopy)]
    if target.capable("serialization"):
        ways += [("pickle", _by_pickle), ("torch.save", _by_saving)]
    device = target.torch_device
    for sample, want in common.cases(subject, recorder, FORWARD, 1):
        for what, make in ways:

            def copied(sample: ModuleSample = sample, make: Callable[[Any], Any] = make) -> Any:
                module = sample.module().to(device)
                duplicate = make(module)
                return module, duplicate, FORWARD.run(make(module), sample.arguments(device), None)

            outcome = common.on_target(target, copied)
            text = f"{what} of {sample.describe()}"
            if not common.succeeded(target, recorder, outcome, text, sample.index):
                continue
            module, duplicate, shown = outcome.value
            common.compare_observation(target, recorder, subject, sample, shown, want, label=f"after {what} ")
            reference = common.state_of(sample.module())
            state = common.state_of(duplicate)
            if not common.compare_state(
                recorder, state, reference, label=text, sample=sample.index, device=device
            ):
                continue
            good = {name: tensor.requires_grad for name, tensor in state.items()} == {
                name: tensor.requires_grad for name, tensor in reference.items()
            }
            fact(recorder, good, Kind.STATE, f"{text} changed requires_grad.", sample=sample.index)
            separate = _addresses(common.state_of(module)).isdisjoint(_addresses(state))
            fact(
                recorder,
                separate,
                Kind.ALIASING,
                f"{text} shares memory with the original.",
                sample=sample.index,
            )
            shared = len(set(map(id, state.values()))) == len(set(map(id, reference.values())))
            fact(recorder, shared, Kind.ALIASING, f"{text} shares other parameters.", sample=sample.index)


def _addresses(state: dict[str, torch.Tensor]) -> set[int]:
    """Return the addresses of the storages of all tensors with elements."""
    return {tensor.untyped_storage().data_ptr() for tensor in state.values() if tensor.numel()}
