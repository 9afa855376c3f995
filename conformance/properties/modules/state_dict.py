"""Parameters and buffers survive being saved, loaded, and moved to another device while loading."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_metadata, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.observed_modules import FORWARD
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import ModuleSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not common.has_parameters(subject):
        return []
    return common.dtypes_of(target, subject)[:2]


def stateful(sample: ModuleSample) -> bool:
    """Return whether the sample's module has parameters or buffers."""
    return bool(sample.module().state_dict())


def saved(value: Any) -> bytes:
    """Return the bytes that torch.save writes."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def loaded(data: bytes, *, weights_only: bool = True, **options: Any) -> Any:
    """Return the value that torch.load reads."""
    return torch.load(io.BytesIO(data), weights_only=weights_only, **options)


def _changed(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module with other values in every parameter and buffer."""
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            tensor.copy_(tensor.logical_not() if tensor.dtype == torch.bool else tensor + 1)
    return module


def _sharing(state: dict[str, torch.Tensor]) -> list[list[str]]:
    """Return the groups of names of entries that lie at the same place in memory."""
    places: dict[tuple[int, Any], list[str]] = {}
    for name, tensor in state.items():
        if tensor.numel():
            places.setdefault((tensor.untyped_storage().data_ptr(), tensor.storage_offset()), []).append(name)
    return [names for names in places.values() if len(names) > 1]


@register(
    "state-dict",
    subject_kind="module",
    statement="A saved state dict loads bit for bit to device and CPU; a module with it computes the same.",
    documentation="notes/serialization.html",
    level="core",
    applies=applies,
    capabilities=("serialization",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in common.cases(subject, recorder, FORWARD, 2, such_that=stateful):
        _loads(target, recorder, sample)
        _into_modules(target, recorder, sample)
        device = target.torch_device

        def restored(sample: ModuleSample = sample, device: torch.device = device) -> Any:
            data = saved(sample.module().to(device).state_dict())
            fresh = _changed(sample.module().to(device))
            fresh.load_state_dict(loaded(data), strict=True)
            return FORWARD.run(fresh, sample.arguments(device), None)

        outcome = common.on_target(target, restored)
        if common.succeeded(target, recorder, outcome, f"loading into {sample.describe()}", sample.index):
            common.compare_observation(
                target,
                recorder,
                subject,
                sample,
                outcome.value,
                want,
                label="after loading a state dict ",
            )


def _loads(target: Target, recorder: Recorder, sample: ModuleSample) -> None:
    device, host = target.torch_device, torch.device("cpu")
    reference = dict(sample.module().state_dict())
    outcome = common.on_target(target, lambda: saved(sample.module().to(device).state_dict()))
    if not common.succeeded(target, recorder, outcome, f"saving {sample.describe()}", sample.index):
        return
    data = outcome.value
    ways: list[tuple[str, dict[str, Any], torch.device]] = [
        ("loaded as saved", {}, device),
        ("loaded to the CPU", {"map_location": "cpu"}, host),
        ("loaded to the device", {"map_location": device}, device),
        ("loaded to the device by name", {"map_location": target.device}, device),
        ("loaded by a function", {"map_location": lambda storage, place: storage}, host),
    ]
    for what, options, place in ways:
        outcome = common.on_target(target, functools.partial(loaded, data, **options))
        if common.succeeded(target, recorder, outcome, f"a state dict {what}", sample.index):
            text = f"the state dict of {sample.describe()} {what}"
            state = dict(outcome.value)
            common.compare_state(recorder, state, reference, label=text, sample=sample.index, device=place)
            shared = _sharing(reference) == _sharing(state)
            fact(
                recorder,
                shared,
                Kind.ALIASING,
                f"{text} shares other memory than before.",
                sample=sample.index,
            )
    host_data = saved(reference)
    outcome = common.on_target(target, lambda: loaded(host_data, map_location=device))
    if common.succeeded(target, recorder, outcome, "a CPU state dict loaded to the device", sample.index):
        text = f"the CPU state dict of {sample.describe()} loaded to the device"
        state = dict(outcome.value)
        common.compare_state(recorder, state, reference, label=text, sample=sample.index, device=device)


def _into_modules(target: Target, recorder: Recorder, sample: ModuleSample) -> None:
    """Check that a module keeps its device when it loads a state dict, and takes the other when it
    assigns.
    """
    device, host = target.torch_device, torch.device("cpu")
    reference = common.state_of(sample.module())
    ways = (
        ("a device module that loads CPU values", device, host, False),
        ("a CPU module that loads device values", host, device, False),
        ("a CPU module that assigns device values", host, device, True),
    )
    for what, home, source, assign in ways:

        def load(home: torch.device = home, source: torch.device = source, assign: bool = assign) -> Any:
            module = _changed(sample.module()).to(home)
            state = sample.module().to(source).state_dict()
            return module, module.load_state_dict(state, strict=True, assign=assign)

        outcome = common.on_target(target, load)
        if not common.succeeded(target, recorder, outcome, f"{what} of {sample.describe()}", sample.index):
            continue
        module, keys = outcome.value
        text = f"{what} reports keys as missing or unexpected: {keys}."
        fact(
            recorder,
            not keys.missing_keys and not keys.unexpected_keys,
            Kind.STATE,
            text,
            sample=sample.index,
        )
        state = common.state_of(module)
        place = source if assign else home
        common.compare_state(recorder, state, reference, label=what, sample=sample.index, device=place)
        for name, tensor in state.items():
            if tensor.requires_grad != reference[name].requires_grad:
                recorder.fail(Kind.STATE, f"{name} of {what} changed requires_grad.", sample=sample.index)
            compare_metadata(recorder, tensor, reference[name], label=f"{name} of {what}", stride=True)
