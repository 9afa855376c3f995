"""Property ``copies``: deepcopy, pickle and torch.save make exact copies of a module on the device."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.storages import has_storage
from conformance.model.verdicts import Kind
from conformance.oracle.observed_modules import FORWARD
from conformance.properties.modules import _module_checks as common
from conformance.properties.modules.state_dict import from_saved_bytes, to_saved_bytes
from conformance.samples.copies import make_copier
from conformance.samples.modules import ModuleSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    return common.first_dtype_only(target, subject)


def _copy_by_pickle(module: torch.nn.Module) -> torch.nn.Module:
    copied: torch.nn.Module = pickle.loads(pickle.dumps(module))
    return copied


def _copy_by_saving(module: torch.nn.Module) -> torch.nn.Module:
    copied: torch.nn.Module = from_saved_bytes(to_saved_bytes(module), weights_only=False)
    return copied


@register(
    "copies",
    subject_kind="module",
    statement="deepcopy, pickle and torch.save copy a device module bit for bit into new memory "
    "on the device.",
    documentation="notes/serialization.html",
    basis="consistency",
    ground="A copied module must compute like the original and have its state",
    level="core",
    applies=dtypes_to_check,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Copy the module on the device and compare the copy's outputs, state, memory and sharing with the
    original.
    """
    copy_methods: list[tuple[str, Callable[[torch.nn.Module], torch.nn.Module]]] = [
        ("deepcopy", copy.deepcopy)
    ]
    if target.capable("serialization"):
        copy_methods += [("pickle", _copy_by_pickle), ("torch.save", _copy_by_saving)]
    device = target.torch_device
    for sample, module_reference in common.samples_with_references(subject, recorder, FORWARD, 1):
        for method_name, make in copy_methods:

            def copy_device_module(sample: ModuleSample = sample, make: Callable[[Any], Any] = make) -> Any:
                module = sample.module().to(device)
                duplicate = make(module)
                return (
                    module,
                    duplicate,
                    FORWARD.run(make(module), sample.arguments(make_copier(target)), None),
                )

            outcome = common.attempt_on_target(target, copy_device_module)
            text = f"{method_name} of {sample.describe()}"
            if not common.require_success(target, recorder, outcome, text, sample.index):
                continue
            module, duplicate, observation = outcome.value
            common.compare_observation(
                target,
                recorder,
                subject,
                sample,
                observation,
                module_reference,
                label=f"after {method_name} ",
            )
            reference = common.parameters_and_buffers(sample.module())
            state = common.parameters_and_buffers(duplicate)
            if not common.compare_state(
                recorder, state, reference, label=text, sample=sample.index, device=device
            ):
                continue
            same_requires_grad = {name: tensor.requires_grad for name, tensor in state.items()} == {
                name: tensor.requires_grad for name, tensor in reference.items()
            }
            fact(
                recorder,
                same_requires_grad,
                Kind.STATE,
                f"{text} changed requires_grad.",
                sample=sample.index,
            )
            separate = _storage_addresses(common.parameters_and_buffers(module)).isdisjoint(
                _storage_addresses(state)
            )
            fact(
                recorder,
                separate,
                Kind.ALIASING,
                f"{text} shares memory with the original.",
                sample=sample.index,
            )
            shared = len(set(map(id, state.values()))) == len(set(map(id, reference.values())))
            fact(
                recorder,
                shared,
                Kind.ALIASING,
                f"{text} changed which parameters are shared.",
                sample=sample.index,
            )


def _storage_addresses(state: dict[str, torch.Tensor]) -> set[int]:
    """Return the addresses of the storages of all tensors that have elements and a storage."""
    tensors = [tensor for tensor in state.values() if tensor.numel() and has_storage(tensor)]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}
