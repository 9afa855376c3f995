"""Use streams, events, memory and the profiler of a target through torch's device-generic API."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from conformance.device import profiler
from conformance.model.profiler_trace import ProfilerTrace
from conformance.target.target import Target

#: Seconds of work that are queued on a stream to make it busy. The longer delays are tried if the host is
#: slow.
DELAYS = (0.1, 0.5, 2.0)


class DeviceApi:
    """The parts of a device's API that properties use. Tests replace this class by a class with an
    injected fault.
    """

    def __init__(self, target: Target) -> None:
        self.target = target

    def new_stream(self) -> Any:
        """Return a new stream."""
        return torch.Stream(device=self.target.device)

    def new_event(self, *, timing: bool = False) -> Any:
        """Return a new event."""
        return torch.Event(device=self.target.device, enable_timing=timing)

    def current_stream(self) -> Any:
        """Return the current stream of this thread."""
        return torch.accelerator.current_stream()

    @contextlib.contextmanager
    def use_stream(self, stream: Any) -> Iterator[None]:
        """Make a stream the current stream of this thread inside this context."""
        before = torch.accelerator.current_stream()
        torch.accelerator.set_stream(stream)
        try:
            yield
        finally:
            torch.accelerator.set_stream(before)

    def queue_delay(self, seconds: float) -> bool:
        """Queue work that takes about ``seconds`` on the current stream. Return False if the target has no
        hook ``delay``.
        """
        hook = self.target.hook("delay")
        if hook is None:
            return False
        hook(seconds)
        return True

    def allocate_elements(self, size: int) -> torch.Tensor:
        """Return ``size`` uninitialized int64 elements of device memory."""
        return torch.empty(size, dtype=torch.int64, device=self.target.device)

    def allocated_bytes(self) -> int:
        """Return the number of allocated bytes of device memory."""
        return int(torch.accelerator.memory_allocated(self.target.device))

    def profile_work(self, work: Callable[[], object]) -> ProfilerTrace:
        """Run ``work`` on the device and return its profiler trace."""
        return profiler.profile_work(self.target, work)

    def memory_history(self) -> profiler.MemoryHistory:
        """Return the recorder of the device's memory history."""
        return profiler.MemoryHistory(self.target)

    def copy_to_pinned_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of a host tensor in pinned memory."""
        return tensor.pin_memory()

    def record_stream(self, tensor: torch.Tensor, stream: Any) -> None:
        """Record that a stream uses a tensor's memory."""
        tensor.record_stream(stream)

    def synchronize(self) -> None:
        """Wait for the device."""
        self.target.synchronize()

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of a tensor in host memory."""
        return tensor.cpu()

    def wait_functions(self) -> Mapping[str, Callable[[Any, Any], None]]:
        """Return, by name, the functions by which the host can wait for a stream. Each function is called
        with a stream and an event that was recorded at the end of the stream's work.
        """
        ways: dict[str, Callable[[Any, Any], None]] = {
            "Stream.synchronize": lambda stream, event: stream.synchronize(),
            "Event.synchronize": lambda stream, event: event.synchronize(),
            "torch.accelerator.synchronize": lambda stream, event: torch.accelerator.synchronize(),
        }
        module = torch.get_device_module(self.target.device)
        if hasattr(module, "synchronize"):
            ways["synchronize of the device's module"] = lambda stream, event: module.synchronize()
        return ways


_make_device_api: Callable[[Target], DeviceApi] = DeviceApi


def device_api(target: Target) -> DeviceApi:
    """Return the device API of a target."""
    return _make_device_api(target)


def replace_device_api(make: Callable[[Target], DeviceApi] | None) -> None:
    """Make :func:`device_api` return ``make(target)``, for tests. None restores the default."""
    global _make_device_api
    _make_device_api = make or DeviceApi


def is_delay_pending_after(api: DeviceApi, stream: Any, work: Callable[[], Any]) -> bool | None:
    """Queue a delay on a stream, call ``work``, and return whether the delay is still pending afterwards.

    True proves that ``work`` did not wait for the stream. False means that ``work`` waited: every delay of
    ``DELAYS`` was over, although the host queued the work in time at least once. None means that the host was
    always too slow, or that the target has no hook ``delay``.
    """
    was_pending: bool | None = None
    for seconds in DELAYS:
        marker = api.new_event()
        with api.use_stream(stream):
            started = time.perf_counter()
            if not api.queue_delay(seconds):
                return None
            marker.record(stream)
            queued = time.perf_counter() - started
            work()
        done = marker.query()
        api.synchronize()
        if not done:
            return True
        # The delay is over: either ``work`` waited for it, or the call of ``delay`` itself blocked the host
        # until the delay was over. Both are deviations.
        was_pending = False if queued < seconds or seconds == DELAYS[-1] else was_pending
    return was_pending
