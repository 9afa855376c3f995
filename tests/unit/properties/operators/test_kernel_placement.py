"""The property ``placement`` observes whether an operator runs natively, as a composite, or as a CPU
fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Placement, ResultId
from conformance.properties.operators import kernel_placement
from conformance.properties.shared import kernel_origin
from conformance.subjects.torch_databases import find
from conformance.target.file import load

_TABLE = kernel_origin.has_kernel


@pytest.fixture
def hide_cpu_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that hides the named CPU kernels from the placement check.

    Without names, the function hides all of them.
    """

    def clear_caches() -> None:
        kernel_origin.composite_key.cache_clear()
        kernel_origin.placement_by_dispatch_table.cache_clear()

    def hide_kernels(*names: str) -> None:
        hidden = {f"aten::{name}" for name in names}
        monkeypatch.setattr(
            kernel_origin,
            "has_kernel",
            lambda name, key: not (key == "CPU" and (not names or name in hidden)) and _TABLE(name, key),
        )
        clear_caches()

    yield hide_kernels
    monkeypatch.undo()
    clear_caches()


def placement_of(name: str) -> str:
    subject = find("operator", name)
    recorder = Recorder(ResultId.parse(f"placement/{name}@float32"), seed=0)
    kernel_placement.check(load("cpu").target("eager"), subject, recorder)
    observed_placement = recorder.result().placement
    assert observed_placement is not None
    return observed_placement.value


@pytest.mark.parametrize(
    "name", ["add", "mul", "sum", "addmm", "sort", "nn.functional.softplus", "zeros_like"]
)
def test_a_device_without_any_kernel_falls_back(hide_cpu_kernels: Callable[..., None], name: str) -> None:
    hide_cpu_kernels()
    assert placement_of(name) == Placement.FALLBACK.value


def test_the_out_overload_decides_for_a_structured_operator(hide_cpu_kernels: Callable[..., None]) -> None:
    assert placement_of("add") == Placement.NATIVE.value
    hide_cpu_kernels("add.Tensor")
    assert (
        placement_of("add") == Placement.COMPOSITE.value
    )  # torch's own kernel, which calls the device's add.out
    hide_cpu_kernels("add.Tensor", "add.out")
    assert placement_of("add") == Placement.FALLBACK.value


def test_the_placement_of_a_composite_is_that_of_its_calls(hide_cpu_kernels: Callable[..., None]) -> None:
    assert placement_of("zeros_like") == Placement.COMPOSITE.value
    hide_cpu_kernels("zero_", "fill_.Scalar")
    assert placement_of("zeros_like") == Placement.FALLBACK.value


def test_number_arguments_reach_kernels_as_tensors() -> None:
    calls = kernel_placement.DispatchedCalls("cpu", "CPU")
    with calls:
        torch.remainder(torch.ones(2), 3)
        torch.mul(torch.ones(2), 2.5)
    assert "aten::remainder.Tensor" in calls.names and "aten::mul.Tensor" in calls.names
