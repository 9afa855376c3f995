"""Moving a module to the device and back, and to another dtype on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_exact, compare_metadata, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.modules import _module_checks as common
from conformance.properties.modules.state_dict import stateful
from conformance.samples.modules import ModuleSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.dtypes_of(target, subject)[:2] if common.has_parameters(subject) else []


def with_gradients(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module with a gradient, not of zeros, on every parameter."""
    for parameter in module.parameters():
        parameter.grad = parameter.detach() * 2 + 1
    return module


def gradients(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the gradients by the name of their parameters."""
    return {
        name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None
    }


@register(
    "device-transfer",
    subject_kind="module",
    statement="Module.to keeps bits, strides, sharing, gradients and itself, to the device and back.",
    documentation="generated/torch.nn.Module.html",
    level="core",
    applies=applies,
    smoke=True,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    device, host = target.torch_device, torch.device("cpu")
    steps: list[tuple[str, Callable[[torch.nn.Module], torch.nn.Module], torch.device]] = [
        ("to(device)", lambda module: module.to(device), device),
        ("to(device) again", lambda module: module.to(device), device),
        ("to('cpu')", lambda module: module.to("cpu"), host),
        ("to(device, non_blocking=True)", lambda module: module.to(target.device, non_blocking=True), device),
        ("cpu()", lambda module: module.cpu(), host),
    ]
    for sample in common.chosen(subject, recorder, 2, such_that=stateful):
        reference, module = with_gradients(sample.module()), with_gradients(sample.module())
        for what, step, place in steps:
            outcome = common.on_target(target, lambda step=step, module=module: step(module))  # type: ignore[misc]
            if not common.succeeded(
                target, recorder, outcome, f"{what} of {sample.describe()}", sample.index
            ):
                break
            text = f"{what} of {sample.describe()}"
            itself = outcome.value is module
            fact(recorder, itself, Kind.ALIASING, f"{text} returns another module.", sample=sample.index)
            _compare(recorder, sample, module, reference, text, place)


def _compare(
    recorder: Recorder,
    sample: ModuleSample,
    module: torch.nn.Module,
    reference: torch.nn.Module,
    label: str,
    place: torch.device,
) -> None:
    index = sample.index
    for got, want, kind in (
        (common.state_of(module), common.state_of(reference), label),
        (gradients(module), gradients(reference), f"the gradients after {label}"),
    ):
        if not common.compare_state(recorder, got, want, label=kind, sample=index, device=place):
            continue
        for name, tensor in want.items():
            part_label = f"{name} of {kind}"
            compare_metadata(recorder, got[name], tensor, label=part_label, sample=index, stride=True)
            same = got[name].requires_grad == tensor.requires_grad and type(got[name]) is type(tensor)
            fact(recorder, same, Kind.STATE, f"{part_label} changed its type or requires_grad.", sample=index)
    shared = _shared(module) == _shared(reference)
    fact(recorder, shared, Kind.ALIASING, f"{label} shares other parameters than before.", sample=index)


def _shared(module: torch.nn.Module) -> list[list[str]]:
    """Return the names of each parameter or buffer that has several."""
    names: dict[int, list[str]] = {}
    for name, tensor in common.state_of(module).items():
        names.setdefault(id(tensor), []).append(name)
    return [several for several in names.values() if len(several) > 1]


def applies_dtype(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return [] if _other(target) is None else applies(target, subject)[:1]


def _other(target: Target) -> torch.dtype | None:
    for name in ("bfloat16", "float16", "float64"):
        if target.declares(name):
            dtype: torch.dtype = getattr(torch, name)
            return dtype
    return None


@register(
    "dtype-transfer",
    subject_kind="module",
    statement="Module.to with a dtype rounds all that is floating, gradients too, and leaves integers alone.",
    documentation="generated/torch.nn.Module.html",
    level="core",
    applies=applies_dtype,
    runs=False,
)
def check_dtype(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    device, dtype = target.torch_device, _other(target)
    assert dtype is not None
    steps: list[
        tuple[str, Callable[[torch.nn.Module], torch.nn.Module], Callable[[torch.nn.Module], Any]]
    ] = [
        ("to(device, dtype)", lambda m: m.to(device, dtype), lambda m: m.to(dtype)),
        ("to(device).to(dtype)", lambda m: m.to(device).to(dtype), lambda m: m.to(dtype)),
        ("to(device).double()", lambda m: m.to(device).double(), lambda m: m.double()),
        (
            "to(dtype).to(device).float()",
            lambda m: m.to(dtype).to(device).float(),
            lambda m: m.to(dtype).float(),
        ),
    ]
    for sample in common.chosen(subject, recorder, 1, such_that=stateful):
        if any(tensor.is_complex() for tensor in common.state_of(sample.module()).values()):
            continue
        for what, step, on_cpu in steps:
            if "double" in what and not target.declares("float64"):
                continue
            module, reference = with_gradients(sample.module()), with_gradients(sample.module())
            on_cpu(reference)
            outcome = common.on_target(target, lambda step=step, module=module: step(module))  # type: ignore[misc]
            text = f"{what} of {sample.describe()}"
            if not common.succeeded(target, recorder, outcome, text, sample.index):
                continue
            got, want = common.state_of(module), common.state_of(reference)
            common.compare_state(recorder, got, want, label=text, sample=sample.index, device=device)
            for name, grad in gradients(reference).items():
                actual = gradients(module).get(name)
                label = f"the gradient of {name} after {text}"
                if compare_metadata(recorder, actual, grad, label=label, device=device):
                    compare_exact(recorder, actual, grad, label=label)
