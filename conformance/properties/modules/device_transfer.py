"""Properties ``device-transfer`` and ``dtype-transfer``: Module.to moves a module to a device and converts
its dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_exact, compare_metadata, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.modules import _module_checks as common
from conformance.properties.modules.state_dict import has_state
from conformance.samples.modules import ModuleSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    return common.supported_dtypes(target, subject)[:2] if common.has_parameters_or_buffers(subject) else []


def with_nonzero_gradients(module: torch.nn.Module) -> torch.nn.Module:
    """Set a nonzero gradient on every parameter and return the module."""
    for parameter in module.parameters():
        parameter.grad = parameter.detach() * 2 + 1
    return module


def gradients_by_name(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the gradients of a module by parameter name. Parameters without a gradient are omitted."""
    return {
        name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None
    }


@register(
    "device-transfer",
    subject_kind="module",
    statement="Module.to returns the module itself and preserves bits, strides, sharing and "
    "gradients, to the device and back.",
    documentation="generated/torch.nn.Module.html",
    level="core",
    applies=dtypes_to_check,
    smoke=True,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Move the module to the device and back, and compare its state and gradients with an unmoved module."""
    device, host = target.torch_device, torch.device("cpu")
    steps: list[tuple[str, Callable[[torch.nn.Module], torch.nn.Module], torch.device]] = [
        ("to(device)", lambda module: module.to(device), device),
        ("to(device) again", lambda module: module.to(device), device),
        ("to('cpu')", lambda module: module.to("cpu"), host),
        ("to(device, non_blocking=True)", lambda module: module.to(target.device, non_blocking=True), device),
        ("cpu()", lambda module: module.cpu(), host),
    ]
    for sample in common.select_samples(subject, recorder, 2, such_that=has_state):
        reference, module = with_nonzero_gradients(sample.module()), with_nonzero_gradients(sample.module())
        for step_name, step, expected_device in steps:
            outcome = common.attempt_on_target(target, lambda step=step, module=module: step(module))  # type: ignore[misc]
            if not common.require_success(
                target, recorder, outcome, f"{step_name} of {sample.describe()}", sample.index
            ):
                break
            text = f"{step_name} of {sample.describe()}"
            itself = outcome.value is module
            fact(
                recorder,
                itself,
                Kind.ALIASING,
                f"{text} does not return the module itself.",
                sample=sample.index,
            )
            _compare_moved_module(recorder, sample, module, reference, text, expected_device)


def _compare_moved_module(
    recorder: Recorder,
    sample: ModuleSample,
    module: torch.nn.Module,
    reference: torch.nn.Module,
    label: str,
    expected_device: torch.device,
) -> None:
    """Compare state, gradients and sharing of a moved module with the reference module."""
    index = sample.index
    for actual_state, expected_state, state_label in (
        (common.parameters_and_buffers(module), common.parameters_and_buffers(reference), label),
        (gradients_by_name(module), gradients_by_name(reference), f"the gradients after {label}"),
    ):
        if not common.compare_state(
            recorder, actual_state, expected_state, label=state_label, sample=index, device=expected_device
        ):
            continue
        for name, tensor in expected_state.items():
            part_label = f"{name} of {state_label}"
            compare_metadata(
                recorder, actual_state[name], tensor, label=part_label, sample=index, stride=True
            )
            same = actual_state[name].requires_grad == tensor.requires_grad and type(
                actual_state[name]
            ) is type(tensor)
            fact(recorder, same, Kind.STATE, f"{part_label} changed its type or requires_grad.", sample=index)
    shared = _names_of_shared_tensors(module) == _names_of_shared_tensors(reference)
    fact(recorder, shared, Kind.ALIASING, f"{label} changed which parameters are shared.", sample=index)


def _names_of_shared_tensors(module: torch.nn.Module) -> list[list[str]]:
    """Return, for each parameter or buffer that has several names, the list of its names."""
    names: dict[int, list[str]] = {}
    for name, tensor in common.parameters_and_buffers(module).items():
        names.setdefault(id(tensor), []).append(name)
    return [several for several in names.values() if len(several) > 1]


def dtypes_for_dtype_conversion(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    return [] if _first_other_declared_dtype(target) is None else dtypes_to_check(target, subject)[:1]


def _first_other_declared_dtype(target: Target) -> torch.dtype | None:
    """Return the first of bfloat16, float16 and float64 that the target declares, or None."""
    for name in ("bfloat16", "float16", "float64"):
        if target.declares(name):
            dtype: torch.dtype = getattr(torch, name)
            return dtype
    return None


@register(
    "dtype-transfer",
    subject_kind="module",
    statement="Module.to with a dtype converts floating parameters, buffers and gradients, and "
    "does not convert integer tensors.",
    documentation="generated/torch.nn.Module.html",
    level="core",
    applies=dtypes_for_dtype_conversion,
    runs=False,
)
def check_dtype_conversion(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Convert the module's dtype on the device and compare its state and gradients with the CPU's
    conversion.
    """
    device, dtype = target.torch_device, _first_other_declared_dtype(target)
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
    for sample in common.select_samples(subject, recorder, 1, such_that=has_state):
        if any(tensor.is_complex() for tensor in common.parameters_and_buffers(sample.module()).values()):
            continue
        for step_name, step, on_cpu in steps:
            if "double" in step_name and not target.declares("float64"):
                continue
            module, reference = (
                with_nonzero_gradients(sample.module()),
                with_nonzero_gradients(sample.module()),
            )
            on_cpu(reference)
            outcome = common.attempt_on_target(target, lambda step=step, module=module: step(module))  # type: ignore[misc]
            text = f"{step_name} of {sample.describe()}"
            if not common.require_success(target, recorder, outcome, text, sample.index):
                continue
            actual_state, expected_state = (
                common.parameters_and_buffers(module),
                common.parameters_and_buffers(reference),
            )
            common.compare_state(
                recorder, actual_state, expected_state, label=text, sample=sample.index, device=device
            )
            for name, grad in gradients_by_name(reference).items():
                actual = gradients_by_name(module).get(name)
                label = f"the gradient of {name} after {text}"
                if compare_metadata(recorder, actual, grad, label=label, device=device):
                    compare_exact(recorder, actual, grad, label=label)
