"""The accelerator runtime that a behaviour uses: ``torch.accelerator`` for a device, and a simulated
accelerator for the CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.behaviours.lab import Lab


class AcceleratorRuntime:
    """Access to the accelerator's devices, streams and memory through ``torch.accelerator``. Tests replace
    this class by a faulty class.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def current_accelerator(self) -> Any:
        """Return the accelerator of this process."""
        return torch.accelerator.current_accelerator()

    def is_available(self) -> bool:
        return bool(torch.accelerator.is_available())

    def device_count(self) -> int:
        return int(torch.accelerator.device_count())

    def current_index(self) -> int:
        return int(torch.accelerator.current_device_index())

    def set_current_index(self, index: Any) -> None:
        torch.accelerator.set_device_index(index)

    def index_guard(self, index: int | None) -> contextlib.AbstractContextManager[Any]:
        result: contextlib.AbstractContextManager[Any] = torch.accelerator.device_index(index)
        return result

    def stream(self) -> Any:
        return torch.Stream(device=self.lab.device)

    def current_stream(self) -> Any:
        return torch.accelerator.current_stream()

    def event(self, **options: Any) -> Any:
        return torch.Event(device=self.lab.device, **options)

    def synchronize(self, *device: Any) -> None:
        torch.accelerator.synchronize(*device)

    def device_module(self) -> Any:
        """Return the device module, such as ``torch.cuda``."""
        return torch.get_device_module(self.lab.device)

    def memory_functions(self) -> Any:
        """Return the object with ``torch.accelerator``'s memory functions."""
        return torch.accelerator

    def random_functions(self) -> Any:
        """Return the module ``torch.accelerator.random``, which torch has from 2.14."""
        return torch.accelerator.random  # type: ignore[attr-defined]


class _SimulatedStream:
    """A simulated stream whose work is always finished. Used as a context manager, it becomes the current
    stream.
    """

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self.runtime = runtime
        self.device = runtime.lab.device
        self.previous_streams: list[Any] = []

    def __enter__(self) -> _SimulatedStream:
        self.previous_streams.append(self.runtime.active_stream)
        self.runtime.active_stream = self
        return self

    def __exit__(self, *error: Any) -> None:
        self.runtime.active_stream = self.previous_streams.pop()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        return None

    def wait_event(self, event: Any) -> None:
        return None

    def wait_stream(self, stream: Any) -> None:
        return None

    def record_event(self, event: Any = None) -> Any:
        event = event or _SimulatedEvent()
        event.record(self)
        return event


class _SimulatedEvent:
    """A simulated event that is always complete."""

    def __init__(self) -> None:
        self.recorded = 0

    def record(self, stream: Any = None) -> None:
        self.recorded += 1

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        return None

    def wait(self, stream: Any = None) -> None:
        return None


class SimulatedDeviceModule:
    """A simulated device module. Its generator is the host's generator, and its memory sizes never change."""

    manual_seed = staticmethod(torch.random.manual_seed)
    seed = staticmethod(torch.random.seed)
    initial_seed = staticmethod(torch.random.initial_seed)
    get_rng_state = staticmethod(torch.random.get_rng_state)
    set_rng_state = staticmethod(torch.random.set_rng_state)
    get_rng_state_all = staticmethod(lambda: [torch.random.get_rng_state()])
    #: The size in bytes that every memory function reports. No tensor of these behaviours is larger.
    size = 1 << 30

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self.runtime = runtime
        self.stats_queries = 0

    def set_device(self, index: Any) -> None:
        self.runtime.set_current_index(index)

    def current_stream(self) -> Any:
        return self.runtime.active_stream

    def set_stream(self, stream: Any) -> None:
        self.runtime.active_stream = stream

    def stream(self, stream: Any) -> Any:
        return stream

    def memory_allocated(self) -> int:
        return self.size

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated

    def get_memory_info(self) -> tuple[int, int]:
        return self.size, self.size

    def memory_stats(self) -> dict[str, int]:
        self.stats_queries += 1
        return {"allocated_bytes.all.current": self.stats_queries}

    mem_get_info = get_memory_info

    def empty_cache(self) -> None:
        return None

    reset_peak_memory_stats = empty_cache


class SimulatedRuntime(AcceleratorRuntime):
    """A simulated runtime with one device, which has index 0."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.device_index = 0
        self.active_stream: Any = _SimulatedStream(self)
        self.simulated_module = SimulatedDeviceModule(self)

    def device_module(self) -> Any:
        return self.simulated_module

    def memory_functions(self) -> Any:
        return self.simulated_module

    def random_functions(self) -> Any:
        return self.simulated_module

    def current_accelerator(self) -> Any:
        return self.lab.device

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_index(self) -> int:
        return self.device_index

    def set_current_index(self, index: Any) -> None:
        number = index if isinstance(index, int) else torch.device(index).index or 0
        if number >= self.device_count():
            raise RuntimeError(f"device {number} does not exist")
        if number >= 0:
            self.device_index = number

    @contextlib.contextmanager
    def index_guard(self, index: int | None) -> Iterator[None]:
        previous_index = self.device_index
        try:
            if index is not None:
                self.set_current_index(index)
            yield
        finally:
            self.device_index = previous_index

    def stream(self) -> Any:
        return _SimulatedStream(self)

    def current_stream(self) -> Any:
        return self.active_stream

    def event(self, **options: Any) -> Any:
        return _SimulatedEvent()

    def synchronize(self, *device: Any) -> None:
        return None


def default_runtime(lab: Lab) -> AcceleratorRuntime:
    """Return the runtime of the Lab's device, or a simulated runtime if this device is the CPU."""
    return SimulatedRuntime(lab) if lab.device.type == "cpu" else AcceleratorRuntime(lab)


_runtime_factory: Callable[[Lab], AcceleratorRuntime] = default_runtime


def runtime_of_lab(lab: Lab) -> AcceleratorRuntime:
    """Return the runtime that the behaviour uses in this Lab."""
    return _runtime_factory(lab)


def replace_runtime_factory(factory: Callable[[Lab], AcceleratorRuntime] | None) -> None:
    """Replace the factory of :func:`runtime_of_lab` (for tests). None restores the default."""
    global _runtime_factory
    _runtime_factory = factory or default_runtime
