"""Streams and events of a target, by torch's device-generic classes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from conformance.device import profiler
from conformance.model.profiler_trace import ProfilerTrace
from conformance.target.target import Target

#: Seconds of work that are put on a stream so that something is pending; longer ones if the host was slower.
DELAYS = (0.1, 0.5, 2.0)


class DeviceApi:
    """The parts of a device's API that properties use. A test hands in one that misbehaves."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def stream(self) -> Any:
        """Return a new stream."""
        return torch.Stream(device=self.target.device)

    def event(self, *, timing: bool = False) -> Any:
        """Return a new event."""
        return torch.Event(device=self.target.device, enable_timing=timing)

    def current(self) -> Any:
        """Return the current stream of this thread."""
        return torch.accelerator.current_stream()

    @contextlib.contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        """Make a stream the current one of this thread for a while."""
        before = torch.accelerator.current_stream()
        torch.accelerator.set_stream(stream)
        try:
            yield
        finally:
            torch.accelerator.set_stream(before)

    def delay(self, seconds: float) -> bool:
        """Put work of about that length on the current stream; return False if the target has no way to."""
        hook = self.target.hook("delay")
        if hook is None:
            return False
        hook(seconds)
        return True

    def empty(self, size: int) -> torch.Tensor:
        """Return ``size`` int64 elements of device memory that nothing has written."""
        return torch.empty(size, dtype=torch.int64, device=self.target.device)

    def allocated(self) -> int:
        """Return the bytes of device memory that are in use."""
        return int(torch.accelerator.memory_allocated(self.target.device))

    def profile(self, work: Callable[[], object]) -> ProfilerTrace:
        """Profile some work on the device."""
        return profiler.take(self.target, work)

    def memory_history(self) -> profiler.MemoryHistory:
        """Return the history of the device's memory."""
        return profiler.MemoryHistory(self.target)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of a host tensor in pinned memory."""
        return tensor.pin_memory()

    def record_stream(self, tensor: torch.Tensor, stream: Any) -> None:
        """Say that a stream works with a tensor's memory."""
        tensor.record_stream(stream)

    def synchronize(self) -> None:
        """Wait for the device."""
        self.target.synchronize()

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy in the host's memory."""
        return tensor.cpu()

    def waits(self) -> Mapping[str, Callable[[Any, Any], None]]:
        """Return the ways in which the host waits for a stream, by name; an event is at the stream's end."""
        ways: dict[str, Callable[[Any, Any], None]] = {
            "Stream.synchronize": lambda stream, event: stream.synchronize(),
            "Event.synchronize": lambda stream, event: event.synchronize(),
            "torch.accelerator.synchronize": lambda stream, event: torch.accelerator.synchronize(),
        }
        module = torch.get_device_module(self.target.device)
        if hasattr(module, "synchronize"):
            ways["synchronize of the device's module"] = lambda stream, event: module.synchronize()
        return ways


_make: Callable[[Target], DeviceApi] = DeviceApi


def device_api(target: Target) -> DeviceApi:
    """Return the API of a target."""
    return _make(target)


def replace(make: Callable[[Target], DeviceApi] | None) -> None:
    """Make :func:`of` return another API (for tests); None puts the real one back."""
    global _make
    _make = make or DeviceApi


def pending_after(api: DeviceApi, stream: Any, work: Callable[[], Any]) -> bool | None:
    """Return whether a stream's earlier work is still pending when ``work``, done after it, has returned.

    True proves that ``work`` did not wait for it. The answer is False only if it waited with every length of
    delay although the host itself was fast enough once; it is None if the host never was, or if nothing can
    be delayed.
    """
    answer: bool | None = None
    for seconds in DELAYS:
        marker = api.event()
        with api.on(stream):
            started = time.perf_counter()
            if not api.delay(seconds):
                return None
            marker.record(stream)
            queued = time.perf_counter() - started
            work()
        done = marker.query()
        api.synchronize()
        if not done:
            return True
        # A device that works the delay off at once is as wrong as a call that waits for it.
        answer = False if queued < seconds or seconds == DELAYS[-1] else answer
    return answer
