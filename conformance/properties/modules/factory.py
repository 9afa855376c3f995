"""Modules that are built on the device instead of being moved there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework.calls import attempt
from conformance.framework.compare import compare_exact, compare_metadata, fact, on_host
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.observed_modules import FORWARD
from conformance.properties.modules import _module_checks as common
from conformance.properties.modules.state_dict import stateful
from conformance.samples.modules import ModuleSample, is_lazy
from conformance.samples.operators import dtype_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Fewest elements whose scatter of initial values is worth a comparison.
_MANY = 32


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    names = inspect.signature(subject.info.module_cls.__init__).parameters
    recurrent = subject.name in ("nn.RNN", "nn.GRU", "nn.LSTM")
    if not recurrent and not {"device", "dtype"} <= set(names):
        return []
    return common.dtypes_of(target, subject)[:2]


@register(
    "factory-device",
    subject_kind="module",
    statement="A module built with device=, under torch.device or from meta is as one built on the CPU.",
    documentation="generated/torch.nn.utils.skip_init.html",
    level="core",
    applies=applies,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    device, dtype = target.torch_device, dtype_of(recorder.id.dtype)
    for sample, want in common.cases(subject, recorder, FORWARD, 2, such_that=stateful):
        outcome = attempt(lambda sample=sample: sample.construct(dtype=dtype))  # type: ignore[misc]
        if not outcome.ok:
            recorder.note(f"{sample.describe()} takes no dtype: {outcome.error}")
            continue
        for what, build in _builders(sample, device, dtype):
            text = f"{sample.describe()} {what}"
            built = common.on_target(target, build)
            if not common.succeeded(target, recorder, built, text, sample.index):
                continue
            module: torch.nn.Module = built.value.train(sample.training)
            lazy = is_lazy(module)
            if not lazy:
                _compare_fresh(recorder, module, outcome.value, text, sample.index, device, "meta" in what)

            def filled(
                module: torch.nn.Module = module, lazy: bool = lazy, sample: ModuleSample = sample
            ) -> Any:
                if lazy:
                    with torch.no_grad():
                        args, kwargs = sample.arguments(device)
                        module(*args, **kwargs)
                module.load_state_dict(sample.module().state_dict(), strict=True)
                return module, FORWARD.run(module, sample.arguments(device), None)

            ran = common.on_target(target, filled)
            if common.succeeded(target, recorder, ran, f"calling {text}", sample.index):
                module, shown = ran.value
                for name, tensor in common.state_of(module).items():
                    right = tensor.device.type == device.type
                    message = f"{name} of {text} is on {tensor.device}, expected {device}."
                    fact(recorder, right, Kind.METADATA, message, sample=sample.index)
                common.compare_observation(target, recorder, subject, sample, shown, want, label=f"{what}: ")


def _builders(
    sample: ModuleSample, device: torch.device, dtype: torch.dtype
) -> list[tuple[str, Callable[[], torch.nn.Module]]]:
    def under() -> torch.nn.Module:
        with device:
            return sample.construct(dtype=dtype)

    def from_meta() -> torch.nn.Module:
        return sample.construct(device="meta", dtype=dtype).to_empty(device=device)

    lazy = issubclass(sample.module_cls, torch.nn.modules.lazy.LazyModuleMixin)
    builders: list[tuple[str, Callable[[], torch.nn.Module]]] = [
        ("built with device=", lambda: sample.construct(device=device, dtype=dtype)),
        ("built with the device's name", lambda: sample.construct(device=str(device), dtype=dtype)),
        ("built under torch.device", under),
    ]
    # to_empty needs to know the sizes, which a lazy module learns from its first input.
    return builders if lazy else [*builders, ("built on meta, then to_empty", from_meta)]


def _compare_fresh(
    recorder: Recorder,
    module: torch.nn.Module,
    reference: torch.nn.Module,
    label: str,
    index: int,
    device: torch.device,
    empty: bool,
) -> None:
    """Compare entries, metadata and, unless the memory is promised to be empty, the initial values."""
    got, want = common.state_of(module), common.state_of(reference)
    text = f"{label} has the entries {', '.join(got)}, expected {', '.join(want)}."
    if not fact(recorder, list(got) == list(want), Kind.STATE, text, sample=index):
        return
    for name, base in want.items():
        part_label = f"{name} of {label}"
        good = compare_metadata(
            recorder, got[name], base, label=part_label, sample=index, stride=True, device=device
        )
        same = got[name].requires_grad == base.requires_grad
        fact(recorder, same, Kind.METADATA, f"{part_label} has another requires_grad.", sample=index)
        if not good or empty or base.numel() == 0:
            continue
        if bool((base == base.flatten()[0]).all()):
            compare_exact(
                recorder, got[name], base, label=f"the constant start of {part_label}", sample=index
            )
        elif base.numel() >= _MANY and base.is_floating_point():
            _compare_scatter(recorder, on_host(got[name]).double(), on_host(base).double(), part_label, index)


def _compare_scatter(
    recorder: Recorder, got: torch.Tensor, want: torch.Tensor, label: str, index: int
) -> None:
    """Compare random starts of one distribution: a spread within a factor of two, means within 1.5
    deviations.
    """
    ratio = float(got.std() / want.std())
    text = f"the standard deviation of the random start of {label} is {ratio:.3g} times the CPU's."
    fact(recorder, 0.5 < ratio < 2, Kind.VALUE, text, sample=index)
    distance = float((got.mean() - want.mean()).abs() / want.std())
    text = f"the mean of the random start of {label} is {distance:.3g} standard deviations from the CPU's."
    fact(recorder, distance < 1.5, Kind.VALUE, text, sample=index)
