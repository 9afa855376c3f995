"""Faulty device runtimes, for the behaviours of the accelerator area."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.behaviours.lab import Lab
from conformance.properties.api.accelerator import _accelerator_or_model
from tests.injected_faults.api.faults import NAMED


class _Nowhere(_accelerator_or_model.SimulatedRuntime):
    """A device whose current index exceeds the device count."""

    def current_index(self) -> int:
        return 3


class _Lax(_accelerator_or_model.SimulatedRuntime):
    """A device that accepts any device index."""

    def set_current_index(self, index: Any) -> None:
        self.device_index = index if isinstance(index, int) else 0


class _Stuck(_accelerator_or_model.SimulatedRuntime):
    """A device on which ``set_stream`` does not change the current stream."""

    def current_stream(self) -> Any:
        return self.stream()


class _HalfSeed(_accelerator_or_model.SimulatedRuntime):
    """A device module that drops the upper half of a seed."""

    def device_module(self) -> Any:
        module = super().device_module()
        module.manual_seed = lambda seed: torch.random.manual_seed(seed & 0xFFFFFFFF)
        return module


class _FromTheSeed(_accelerator_or_model.SimulatedRuntime):
    """A device module whose ``set_rng_state`` restarts the generator from the seed, so that the position in
    the state is lost.
    """

    def device_module(self) -> Any:
        module = super().device_module()

        def restore(state: torch.Tensor) -> None:
            torch.random.set_rng_state(state)
            torch.random.manual_seed(torch.random.initial_seed())

        module.set_rng_state = restore
        return module


class _Unset(_accelerator_or_model.SimulatedRuntime):
    """A device module whose ``set_stream`` does nothing."""

    def device_module(self) -> Any:
        module = super().device_module()
        module.set_stream = lambda stream: None
        return module


class _OneMore(_accelerator_or_model.SimulatedRuntime):
    """A device module that reports one reserved byte too many."""

    def memory_functions(self) -> Any:
        return _accelerator_or_model.SimulatedDeviceModule(self)

    def device_module(self) -> Any:
        module = super().device_module()
        module.memory_reserved = lambda: module.size + 1
        return module


class _AnyDevice(_accelerator_or_model.SimulatedRuntime):
    """A device module whose ``set_device`` accepts any device index."""

    def device_module(self) -> Any:
        module = super().device_module()
        module.set_device = lambda index: None
        return module


class _FirstStateOnly(_accelerator_or_model.SimulatedRuntime):
    """Random functions whose ``get_rng_state`` returns the same state at every call."""

    def random_functions(self) -> Any:
        module = super().random_functions()
        state = module.get_rng_state()
        module.get_rng_state = lambda: state
        return module


def _with_runtime(runtime: Callable[[Lab], _accelerator_or_model.Runtime]) -> Callable[[Lab], Any]:
    @contextlib.contextmanager
    def around(lab: Lab) -> Iterator[None]:
        _accelerator_or_model.replace_runtime_factory(runtime)
        try:
            yield
        finally:
            _accelerator_or_model.replace_runtime_factory(None)

    return around


NAMED["the-accelerator"] = _with_runtime(_Nowhere)
NAMED["guards-of-the-device"] = _with_runtime(_Lax)
NAMED["random-states-of-the-accelerator"] = _with_runtime(_FirstStateOnly)
NAMED["streams-as-contexts"] = _with_runtime(_Stuck)
NAMED["seeds-by-the-module"] = _with_runtime(_HalfSeed)
NAMED["states-by-the-module"] = _with_runtime(_FromTheSeed)
NAMED["streams-of-the-module"] = _with_runtime(_Unset)
NAMED["memory-by-the-module"] = _with_runtime(_OneMore)
NAMED["devices-of-the-module"] = _with_runtime(_AnyDevice)
