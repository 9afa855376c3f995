"""Property ``state-dict``: saving, loading and moving a state dict does not change its values."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_metadata, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.storages import address_of
from conformance.model.verdicts import Kind
from conformance.oracle.observed_modules import FORWARD
from conformance.properties.modules import _module_checks as common
from conformance.samples.copies import make_copier
from conformance.samples.modules import ModuleSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    if not common.has_parameters_or_buffers(subject):
        return []
    return common.supported_dtypes(target, subject)[:2]


def has_state(sample: ModuleSample) -> bool:
    """Return whether the sample's module has parameters or buffers."""
    return bool(sample.module().state_dict())


def to_saved_bytes(value: Any) -> bytes:
    """Return the bytes that torch.save writes for a value."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def from_saved_bytes(data: bytes, *, weights_only: bool = True, **options: Any) -> Any:
    """Return the value that torch.load reads from bytes."""
    return torch.load(io.BytesIO(data), weights_only=weights_only, **options)


def _with_changed_values(module: torch.nn.Module) -> torch.nn.Module:
    """Change the values of every parameter and buffer, and return the module."""
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            tensor.copy_(tensor.logical_not() if tensor.dtype == torch.bool else tensor + 1)
    return module


def _names_of_shared_entries(state: dict[str, torch.Tensor]) -> list[list[str]]:
    """Return the groups of names whose tensors start at the same memory address.

    Tensors without a storage are grouped if they are the same object.
    """
    names_by_address: dict[int, list[str]] = {}
    for name, tensor in state.items():
        if tensor.numel():
            names_by_address.setdefault(address_of(tensor) or id(tensor), []).append(name)
    return [names for names in names_by_address.values() if len(names) > 1]


@register(
    "state-dict",
    subject_kind="module",
    statement="A saved state dict loads bit for bit to device and CPU; a module that loads it "
    "gives the same results.",
    documentation="notes/serialization.html",
    level="core",
    applies=dtypes_to_check,
    capabilities=("serialization",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Save and load the module's state dict in several ways, then compare state and outputs with the
    reference.
    """
    for sample, reference in common.samples_with_references(
        subject, recorder, FORWARD, 2, such_that=has_state
    ):
        _check_loading(target, recorder, sample)
        _check_loading_into_modules(target, recorder, sample)
        device = target.torch_device

        def load_into_device_module(sample: ModuleSample = sample, device: torch.device = device) -> Any:
            data = to_saved_bytes(sample.module().to(device).state_dict())
            module = _with_changed_values(sample.module().to(device))
            module.load_state_dict(from_saved_bytes(data), strict=True)
            return FORWARD.run(module, sample.arguments(make_copier(target)), None)

        outcome = common.attempt_on_target(target, load_into_device_module)
        if common.require_success(
            target, recorder, outcome, f"loading into {sample.describe()}", sample.index
        ):
            common.compare_observation(
                target,
                recorder,
                subject,
                sample,
                outcome.value,
                reference,
                label="after loading a state dict ",
            )


def _check_loading(target: Target, recorder: Recorder, sample: ModuleSample) -> None:
    """Save the state dict, load it to the device and to the CPU, and compare it with the original."""
    device, host = target.torch_device, torch.device("cpu")
    reference = dict(sample.module().state_dict())
    outcome = common.attempt_on_target(
        target, lambda: to_saved_bytes(sample.module().to(device).state_dict())
    )
    if not common.require_success(target, recorder, outcome, f"saving {sample.describe()}", sample.index):
        return
    data = outcome.value
    load_ways: list[tuple[str, dict[str, Any], torch.device]] = [
        ("loaded as saved", {}, device),
        ("loaded to the CPU", {"map_location": "cpu"}, host),
        ("loaded to the device", {"map_location": device}, device),
        ("loaded to the device, given as text", {"map_location": target.device}, device),
        ("loaded by a function", {"map_location": lambda storage, expected_device: storage}, host),
    ]
    for way_label, options, expected_device in load_ways:
        outcome = common.attempt_on_target(target, functools.partial(from_saved_bytes, data, **options))
        if common.require_success(target, recorder, outcome, f"a state dict {way_label}", sample.index):
            text = f"the state dict of {sample.describe()} {way_label}"
            state = dict(outcome.value)
            common.compare_state(
                recorder, state, reference, label=text, sample=sample.index, device=expected_device
            )
            shared = _names_of_shared_entries(reference) == _names_of_shared_entries(state)
            fact(
                recorder,
                shared,
                Kind.ALIASING,
                f"{text} changed which entries share memory.",
                sample=sample.index,
            )
    host_data = to_saved_bytes(reference)
    outcome = common.attempt_on_target(target, lambda: from_saved_bytes(host_data, map_location=device))
    if common.require_success(
        target, recorder, outcome, "a CPU state dict loaded to the device", sample.index
    ):
        text = f"the CPU state dict of {sample.describe()} loaded to the device"
        state = dict(outcome.value)
        common.compare_state(recorder, state, reference, label=text, sample=sample.index, device=device)


def _check_loading_into_modules(target: Target, recorder: Recorder, sample: ModuleSample) -> None:
    """Check that a module stays on its device when it loads a state dict, and that with ``assign=True`` it
    moves to the device of the entries.
    """
    device, host = target.torch_device, torch.device("cpu")
    reference = common.parameters_and_buffers(sample.module())
    load_ways = (
        ("a device module that loads CPU values", device, host, False),
        ("a CPU module that loads device values", host, device, False),
        ("a CPU module that assigns device values", host, device, True),
    )
    for way_label, module_device, state_device, assign in load_ways:

        def load(
            module_device: torch.device = module_device,
            state_device: torch.device = state_device,
            assign: bool = assign,
        ) -> Any:
            module = _with_changed_values(sample.module()).to(module_device)
            state = sample.module().to(state_device).state_dict()
            return module, module.load_state_dict(state, strict=True, assign=assign)

        outcome = common.attempt_on_target(target, load)
        if not common.require_success(
            target, recorder, outcome, f"{way_label} of {sample.describe()}", sample.index
        ):
            continue
        module, keys = outcome.value
        text = f"{way_label} reports keys as missing or unexpected: {keys}."
        fact(
            recorder,
            not keys.missing_keys and not keys.unexpected_keys,
            Kind.STATE,
            text,
            sample=sample.index,
        )
        state = common.parameters_and_buffers(module)
        expected_device = state_device if assign else module_device
        common.compare_state(
            recorder, state, reference, label=way_label, sample=sample.index, device=expected_device
        )
        for name, tensor in state.items():
            if tensor.requires_grad != reference[name].requires_grad:
                recorder.fail(
                    Kind.STATE, f"{name} of {way_label} changed requires_grad.", sample=sample.index
                )
            compare_metadata(recorder, tensor, reference[name], label=f"{name} of {way_label}", stride=True)
