"""Property ``factory-device``: a module that is constructed on the device equals a module from the CPU."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework.calls import attempt
from conformance.framework.compare import compare_exact, compare_metadata, fact, to_host_tensor
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.observed_modules import FORWARD
from conformance.properties.modules import _module_checks as common
from conformance.properties.modules.state_dict import has_state
from conformance.samples.copies import make_copier
from conformance.samples.modules import ModuleSample, is_lazy
from conformance.samples.operators import dtype_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Random initial values are compared only in tensors with at least this number of elements.
_MIN_ELEMENTS = 32


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    names = inspect.signature(subject.info.module_cls.__init__).parameters
    recurrent = subject.name in ("nn.RNN", "nn.GRU", "nn.LSTM")
    if not recurrent and not {"device", "dtype"} <= set(names):
        return []
    return common.supported_dtypes(target, subject)[:2]


@register(
    "factory-device",
    subject_kind="module",
    statement="A module built with device=, under torch.device or from meta equals a module "
    "built on the CPU.",
    documentation="generated/torch.nn.Module.html",
    level="core",
    applies=dtypes_to_check,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Construct the module on the device in several ways. Compare its initial state and, after it has loaded
    a state dict, its outputs.
    """
    device, dtype = target.torch_device, dtype_of(recorder.id.dtype)
    for sample, reference in common.samples_with_references(
        subject, recorder, FORWARD, 2, such_that=has_state
    ):
        outcome = attempt(lambda sample=sample: sample.construct(dtype=dtype))  # type: ignore[misc]
        if not outcome.ok:
            recorder.note(f"{sample.describe()} cannot be constructed with a dtype: {outcome.error}")
            continue
        for build_label, build in _construction_methods(sample, device, dtype):
            text = f"{sample.describe()} {build_label}"
            build_outcome = common.attempt_on_target(target, build)
            if not common.require_success(target, recorder, build_outcome, text, sample.index):
                continue
            module: torch.nn.Module = build_outcome.value.train(sample.training)
            lazy = is_lazy(module)
            if not lazy:
                _compare_new_module(
                    recorder, module, outcome.value, text, sample.index, device, "meta" in build_label
                )

            def filled(
                module: torch.nn.Module = module, lazy: bool = lazy, sample: ModuleSample = sample
            ) -> Any:
                if lazy:
                    with torch.no_grad():
                        args, kwargs = sample.arguments(make_copier(target))
                        module(*args, **kwargs)
                module.load_state_dict(sample.module().state_dict(), strict=True)
                return module, FORWARD.run(module, sample.arguments(make_copier(target)), None)

            ran = common.attempt_on_target(target, filled)
            if common.require_success(target, recorder, ran, f"calling {text}", sample.index):
                module, observation = ran.value
                for name, tensor in common.parameters_and_buffers(module).items():
                    is_on_device = tensor.device.type == device.type
                    message = f"{name} of {text} is on {tensor.device}, expected {device}."
                    fact(recorder, is_on_device, Kind.METADATA, message, sample=sample.index)
                common.compare_observation(
                    target, recorder, subject, sample, observation, reference, label=f"{build_label}: "
                )


def _construction_methods(
    sample: ModuleSample, device: torch.device, dtype: torch.dtype
) -> list[tuple[str, Callable[[], torch.nn.Module]]]:
    def construct_under_device() -> torch.nn.Module:
        with device:
            return sample.construct(dtype=dtype)

    def construct_on_meta() -> torch.nn.Module:
        return sample.construct(device="meta", dtype=dtype).to_empty(device=device)

    lazy = issubclass(sample.module_cls, torch.nn.modules.lazy.LazyModuleMixin)
    builders: list[tuple[str, Callable[[], torch.nn.Module]]] = [
        ("built with device=", lambda: sample.construct(device=device, dtype=dtype)),
        ("built with device= as text", lambda: sample.construct(device=str(device), dtype=dtype)),
        ("built under torch.device", construct_under_device),
    ]
    # A lazy module cannot be built on meta: before its first call, its parameters have no sizes for to_empty.
    return builders if lazy else [*builders, ("built on meta, then to_empty", construct_on_meta)]


def _compare_new_module(
    recorder: Recorder,
    module: torch.nn.Module,
    reference: torch.nn.Module,
    label: str,
    index: int,
    device: torch.device,
    empty: bool,
) -> None:
    """Compare the names and metadata of a new module and, unless its memory is uninitialised, its initial
    values.
    """
    actual_state, expected_state = (
        common.parameters_and_buffers(module),
        common.parameters_and_buffers(reference),
    )
    text = f"{label} has the entries {', '.join(actual_state)}, expected {', '.join(expected_state)}."
    if not fact(recorder, list(actual_state) == list(expected_state), Kind.STATE, text, sample=index):
        return
    for name, base in expected_state.items():
        part_label = f"{name} of {label}"
        same_metadata = compare_metadata(
            recorder, actual_state[name], base, label=part_label, sample=index, stride=True, device=device
        )
        same = actual_state[name].requires_grad == base.requires_grad
        fact(recorder, same, Kind.METADATA, f"{part_label} has the wrong requires_grad.", sample=index)
        if not same_metadata or empty or base.numel() == 0:
            continue
        if bool((base == base.flatten()[0]).all()):
            compare_exact(
                recorder, actual_state[name], base, label=f"the initial value of {part_label}", sample=index
            )
        elif base.numel() >= _MIN_ELEMENTS and base.is_floating_point():
            _compare_initial_distribution(
                recorder,
                to_host_tensor(actual_state[name]).double(),
                to_host_tensor(base).double(),
                part_label,
                index,
            )


def _compare_initial_distribution(
    recorder: Recorder, actual: torch.Tensor, expected: torch.Tensor, label: str, index: int
) -> None:
    """Compare the distributions of random initial values on the device and on the CPU.

    The standard deviations may differ by a factor of two, the means by 1.5 standard deviations.
    """
    ratio = float(actual.std() / expected.std())
    text = f"the standard deviation of the initial {label} is {ratio:.3g} times the CPU's."
    fact(recorder, 0.5 < ratio < 2, Kind.VALUE, text, sample=index)
    distance = float((actual.mean() - expected.mean()).abs() / expected.std())
    text = f"the mean of the initial {label} is {distance:.3g} standard deviations from the CPU's."
    fact(recorder, distance < 1.5, Kind.VALUE, text, sample=index)
