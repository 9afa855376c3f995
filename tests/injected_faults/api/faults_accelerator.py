"""Faulty device runtimes, for the behaviours of the accelerator area."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.behaviours.lab import Lab
from conformance.properties.api.accelerator import _accelerator_or_model
from tests.injected_faults.api.faults import NAMED


class _IndexOutOfRange(_accelerator_or_model.SimulatedRuntime):
    """A device whose current index exceeds the device count."""

    def current_index(self) -> int:
        return 3


class _AcceptsAnyIndex(_accelerator_or_model.SimulatedRuntime):
    """A device that accepts any device index."""

    def set_current_index(self, index: Any) -> None:
        self.device_index = index if isinstance(index, int) else 0


class _SetStreamIgnored(_accelerator_or_model.SimulatedRuntime):
    """A device on which ``set_stream`` does not change the current stream."""

    def current_stream(self) -> Any:
        return self.stream()


class _DropsUpperHalfOfSeed(_accelerator_or_model.SimulatedRuntime):
    """A device module that drops the upper half of a seed."""

    def device_module(self) -> Any:
        module = super().device_module()
        module.manual_seed = lambda seed: torch.random.manual_seed(seed & 0xFFFFFFFF)
        return module


class _StateRestartsFromSeed(_accelerator_or_model.SimulatedRuntime):
    """A device module whose ``set_rng_state`` restarts the generator from the seed, so that the position in
    the state is lost.
    """

    def device_module(self) -> Any:
        module = super().device_module()

        def set_state_and_restart(state: torch.Tensor) -> None:
            torch.random.set_rng_state(state)
            torch.random.manual_seed(torch.random.initial_seed())

        module.set_rng_state = set_state_and_restart
        return module


class _ModuleSetStreamIgnored(_accelerator_or_model.SimulatedRuntime):
    """A device module whose ``set_stream`` does nothing."""

    def device_module(self) -> Any:
        module = super().device_module()
        module.set_stream = lambda stream: None
        return module


class _OneReservedByteTooMany(_accelerator_or_model.SimulatedRuntime):
    """A device module that reports one reserved byte too many."""

    def memory_functions(self) -> Any:
        return _accelerator_or_model.SimulatedDeviceModule(self)

    def device_module(self) -> Any:
        module = super().device_module()
        module.memory_reserved = lambda: module.size + 1
        return module


class _SetDeviceAcceptsAnyIndex(_accelerator_or_model.SimulatedRuntime):
    """A device module whose ``set_device`` accepts any device index."""

    def device_module(self) -> Any:
        module = super().device_module()
        module.set_device = lambda index: None
        return module


class _GetStateReturnsFirstState(_accelerator_or_model.SimulatedRuntime):
    """Random functions whose ``get_rng_state`` returns the same state at every call."""

    def random_functions(self) -> Any:
        module = super().random_functions()
        state = module.get_rng_state()
        module.get_rng_state = lambda: state
        return module


def _fault_of_runtime(
    runtime: Callable[[Lab], _accelerator_or_model.AcceleratorRuntime],
) -> Callable[[Lab], Any]:
    @contextlib.contextmanager
    def inject_runtime(lab: Lab) -> Iterator[None]:
        _accelerator_or_model.replace_runtime_factory(runtime)
        try:
            yield
        finally:
            _accelerator_or_model.replace_runtime_factory(None)

    return inject_runtime


NAMED["the-accelerator"] = _fault_of_runtime(_IndexOutOfRange)
NAMED["guards-of-the-device"] = _fault_of_runtime(_AcceptsAnyIndex)
NAMED["random-states-of-the-accelerator"] = _fault_of_runtime(_GetStateReturnsFirstState)
NAMED["streams-as-contexts"] = _fault_of_runtime(_SetStreamIgnored)
NAMED["seeds-by-the-module"] = _fault_of_runtime(_DropsUpperHalfOfSeed)
NAMED["states-by-the-module"] = _fault_of_runtime(_StateRestartsFromSeed)
NAMED["streams-of-the-module"] = _fault_of_runtime(_ModuleSetStreamIgnored)
NAMED["memory-by-the-module"] = _fault_of_runtime(_OneReservedByteTooMany)
NAMED["devices-of-the-module"] = _fault_of_runtime(_SetDeviceAcceptsAnyIndex)
