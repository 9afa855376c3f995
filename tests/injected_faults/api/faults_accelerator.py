"""Runtimes that misbehave, for the behaviours of the accelerator area."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.behaviours.lab import Lab
from conformance.properties.api.accelerator import _accelerator_or_model
from tests.injected_faults.api.faults import NAMED


class _Nowhere(_accelerator_or_model.ModelRuntime):
    """Its current index is beyond the number of its devices."""

    def index(self) -> int:
        return 3


class _Lax(_accelerator_or_model.ModelRuntime):
    """Takes any index."""

    def set_index(self, index: Any) -> None:
        self.device_index = index if isinstance(index, int) else 0


class _Stuck(_accelerator_or_model.ModelRuntime):
    """Streams do not become the current one."""

    def current_stream(self) -> Any:
        return self.stream()


class _HalfSeed(_accelerator_or_model.ModelRuntime):
    """Its module forgets the upper half of a seed."""

    def module(self) -> Any:
        module = super().module()
        module.manual_seed = lambda seed: torch.random.manual_seed(seed & 0xFFFFFFFF)
        return module


class _FromTheSeed(_accelerator_or_model.ModelRuntime):
    """Its module begins anew from the seed of a state."""

    def module(self) -> Any:
        module = super().module()

        def restore(state: torch.Tensor) -> None:
            torch.random.set_rng_state(state)
            torch.random.manual_seed(torch.random.initial_seed())

        module.set_rng_state = restore
        return module


class _Unset(_accelerator_or_model.ModelRuntime):
    """Its module does not set a stream."""

    def module(self) -> Any:
        module = super().module()
        module.set_stream = lambda stream: None
        return module


class _OneMore(_accelerator_or_model.ModelRuntime):
    """Its module counts a byte too many."""

    def memory(self) -> Any:
        return _accelerator_or_model.ModelModule(self)

    def module(self) -> Any:
        module = super().module()
        module.memory_reserved = lambda: module.size + 1
        return module


class _AnyDevice(_accelerator_or_model.ModelRuntime):
    """Its module takes any device."""

    def module(self) -> Any:
        module = super().module()
        module.set_device = lambda index: None
        return module


def _with(runtime: Callable[[Lab], _accelerator_or_model.Runtime]) -> Callable[[Lab], Any]:
    @contextlib.contextmanager
    def around(lab: Lab) -> Iterator[None]:
        _accelerator_or_model.replace_runtime_factory(runtime)
        try:
            yield
        finally:
            _accelerator_or_model.replace_runtime_factory(None)

    return around


NAMED["the-accelerator"] = _with(_Nowhere)
NAMED["guards-of-the-device"] = _with(_Lax)
NAMED["streams-as-contexts"] = _with(_Stuck)
NAMED["seeds-by-the-module"] = _with(_HalfSeed)
NAMED["states-by-the-module"] = _with(_FromTheSeed)
NAMED["streams-of-the-module"] = _with(_Unset)
NAMED["memory-by-the-module"] = _with(_OneMore)
NAMED["devices-of-the-module"] = _with(_AnyDevice)
