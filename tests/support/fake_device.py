"""A fake device on the CPU with streams and events, and variants of the device with one fault each.

In-place kernels on a side stream are queued. A queue runs only when the host waits for the stream or for an
event, and only as far as this wait requires. The work thus runs as late as the program permits, so a program
that omits a necessary wait reads wrong values.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from conformance.device.api import DeviceApi
from conformance.target.target import Target
from tests.support.fake_graph import Graph


class FakeStream:
    def __init__(self, api: FakeDeviceApi) -> None:
        self.api = api
        self.queue: list[Callable[[], None]] = []
        self.done = 0

    @property
    def pushed_count(self) -> int:
        return self.done + len(self.queue)

    def push(self, work: Callable[[], None]) -> None:
        self.queue.append(work)

    def run(self, until: int) -> None:
        while self.done < until:
            self.queue.pop(0)()
            self.done += 1
            self.api.clock += 1.0

    def synchronize(self) -> None:
        self.run(self.pushed_count)

    def query(self) -> bool:
        return not self.queue

    def record_event(self) -> FakeEvent:
        event = self.api.new_event(timing=True)
        event.record(self)
        return event

    def wait_event(self, event: FakeEvent) -> None:
        self.push(event.synchronize)

    def wait_stream(self, stream: FakeStream) -> None:
        self.wait_event(stream.record_event())


class FakeEvent:
    def __init__(self, api: FakeDeviceApi, timing: bool) -> None:
        self.api, self.timing = api, timing
        self.stream: FakeStream | None = None
        self.place = 0
        self.time = 0.0

    def record(self, stream: FakeStream) -> None:
        def record_time() -> None:
            self.time = self.api.clock

        self.stream = stream
        stream.push(record_time)
        self.place = stream.pushed_count

    def wait(self, stream: FakeStream) -> None:
        stream.wait_event(self)

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.run(self.place)

    def query(self) -> bool:
        return self.stream is None or self.stream.done >= self.place

    def elapsed_time(self, end: FakeEvent) -> float:
        if not (self.timing and end.timing and self.stream and end.stream):
            raise RuntimeError("both events must keep time and be recorded")
        return end.time - self.time


class DeferCalls(TorchDispatchMode):
    """Dispatch mode that queues each in-place call on ``stream``. Any other call runs immediately, before the
    queued work.
    """

    def __init__(self, stream: FakeStream) -> None:
        super().__init__()
        self.stream = stream

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func._schema.name.endswith("_"):
            return func(*args, **(kwargs or {}))
        # The queue refers to the memory of the arguments through detached tensors, so that the caller's
        # tensor objects can be freed.
        arguments = [arg.detach() if isinstance(arg, torch.Tensor) else arg for arg in args]
        self.stream.push(functools.partial(func, *arguments, **(kwargs or {})))
        return args[0]


class FakeDeviceApi(DeviceApi):
    """The API of a correct fake device. Subclasses add one fault each."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.clock = 0.0
        self.streams: list[FakeStream] = []
        self.default = self.new_stream()
        self.local = threading.local()
        self.free: dict[int, list[torch.Tensor]] = {}
        self.busy: dict[int, FakeStream] = {}
        self.names = itertools.count()

    def new_stream(self) -> Any:
        self.streams.append(FakeStream(self))
        return self.streams[-1]

    def new_event(self, *, timing: bool = False) -> Any:
        return FakeEvent(self, timing)

    def current_stream(self) -> Any:
        return getattr(self.local, "stream", self.default)

    @contextlib.contextmanager
    def use_stream(self, stream: Any) -> Iterator[None]:
        before = self.current_stream()
        self.local.stream = stream
        try:
            with DeferCalls(stream):
                yield
        finally:
            self.local.stream = before

    def queue_delay(self, seconds: float) -> bool:
        def advance_clock() -> None:
            self.clock += seconds * 1000

        self.current_stream().push(advance_clock)
        return True

    def allocate_elements(self, size: int) -> torch.Tensor:
        free = self.free.setdefault(size, [])
        memory = free.pop() if free else torch.empty(size, dtype=torch.int64)
        tensor = memory.detach()
        weakref.finalize(tensor, self.release, size, memory)
        return tensor

    def release(self, size: int, memory: torch.Tensor) -> None:
        stream = self.busy.pop(memory.data_ptr(), None)
        if stream is None or not stream.queue:
            self.free[size].append(memory)

    def copy_to_pinned_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone()

    def record_stream(self, tensor: torch.Tensor, stream: Any) -> None:
        self.busy[tensor.data_ptr()] = stream

    def synchronize(self) -> None:
        for stream in self.streams:
            stream.synchronize()

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        with _disable_current_modes():  # so that queued work runs and is not queued again
            self.current_stream().synchronize()
        return tensor.clone()

    def wait_functions(self) -> Mapping[str, Callable[[Any, Any], None]]:
        return {
            "Stream.synchronize": lambda stream, event: stream.synchronize(),
            "Event.synchronize": lambda stream, event: event.synchronize(),
            "synchronize": lambda stream, event: self.synchronize(),
        }


class StreamGraph(Graph):
    """A graph whose replay is work of the current stream."""

    api: FakeDeviceApi

    def replay(self) -> None:
        self.api.current_stream().push(super().replay)


class ReplaysBeforeQueuedWork(StreamGraph):
    """A graph that is replayed immediately, before the queued work of the current stream."""

    def replay(self) -> None:
        Graph.replay(self)


class RunsNewestWorkFirst(FakeDeviceApi):
    """A device that runs the newest work of a stream first."""

    def new_stream(self) -> Any:
        class StreamRunningNewestFirst(FakeStream):
            def run(self, until: int) -> None:
                while self.done < until:
                    self.queue.pop()()
                    self.done += 1

        self.streams.append(StreamRunningNewestFirst(self))
        return self.streams[-1]


class IgnoresWaitsForEvents(FakeDeviceApi):
    """A device that ignores waits between streams."""

    def new_stream(self) -> Any:
        class StreamIgnoringEvents(FakeStream):
            def wait_event(self, event: FakeEvent) -> None:
                pass

        self.streams.append(StreamIgnoringEvents(self))
        return self.streams[-1]


class ElapsedTimeOfEndEvent(FakeDeviceApi):
    """A device whose elapsed_time returns the time of the second event instead of the difference."""

    def new_event(self, *, timing: bool = False) -> Any:
        class EventReturningEndTime(FakeEvent):
            def elapsed_time(self, end: FakeEvent) -> float:
                return end.time

        return EventReturningEndTime(self, timing)


class AcceptsUnrecordedEvents(FakeDeviceApi):
    """A device whose elapsed_time accepts events that were not recorded."""

    def new_event(self, *, timing: bool = False) -> Any:
        class EventWithoutRecordCheck(FakeEvent):
            def elapsed_time(self, end: FakeEvent) -> float:
                return end.time - self.time

        return EventWithoutRecordCheck(self, timing)


class EventsAlwaysDone(FakeDeviceApi):
    """A device whose events always report that their work is done."""

    def new_event(self, *, timing: bool = False) -> Any:
        class EventAlwaysDone(FakeEvent):
            def query(self) -> bool:
                return True

        return EventAlwaysDone(self, timing)


class StreamContextExitWaits(FakeDeviceApi):
    """A device on which leaving a stream's context waits for the work of the stream."""

    @contextlib.contextmanager
    def use_stream(self, stream: Any) -> Iterator[None]:
        with super().use_stream(stream):
            yield
        stream.synchronize()


class ReusesMemoryInUse(FakeDeviceApi):
    """A device that reuses memory which other streams still use."""

    def record_stream(self, tensor: torch.Tensor, stream: Any) -> None:
        pass


class WaitEventBlocksHost(FakeDeviceApi):
    """A device on which wait_event blocks the host until the event's work is done."""

    def new_stream(self) -> Any:
        class StreamBlockingHost(FakeStream):
            def wait_event(self, event: FakeEvent) -> None:
                event.synchronize()

        self.streams.append(StreamBlockingHost(self))
        return self.streams[-1]


class HostCopiesDoNotWait(FakeDeviceApi):
    """A device whose copies to the host do not wait for pending work."""

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone()


class RunsCopiesLast(FakeDeviceApi):
    """A device that runs the queued copies of a stream after all other queued work of the stream."""

    def new_stream(self) -> Any:
        class StreamRunningCopiesLast(FakeStream):
            def run(self, until: int) -> None:
                self.queue.sort(key=lambda work: getattr(work, "func", None) is torch.ops.aten.copy_.default)
                super().run(until)

        self.streams.append(StreamRunningCopiesLast(self))
        return self.streams[-1]


class ReusesPinnedMemoryInUse(FakeDeviceApi):
    """A device that reuses the memory of a freed pinned tensor while a copy from this memory is queued."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.freed: list[torch.Tensor] = []

    def copy_to_pinned_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        with _disable_current_modes():
            fits = [index for index, memory in enumerate(self.freed) if memory.nbytes == tensor.nbytes]
            memory = self.freed.pop(fits[0]) if fits else torch.empty_like(tensor).view(torch.uint8)
            pinned = memory.view(tensor.dtype)
            weakref.finalize(pinned, self.freed.append, memory)
            return pinned.copy_(tensor)


class ElapsedTimeIsZero(FakeDeviceApi):
    """A device that measures zero time for any work."""

    def new_event(self, *, timing: bool = False) -> Any:
        class EventWithoutElapsedTime(FakeEvent):
            def elapsed_time(self, end: FakeEvent) -> float:
                return super().elapsed_time(end) * 0.0

        return EventWithoutElapsedTime(self, timing)


class ElapsedTimeInMicroseconds(FakeDeviceApi):
    """A device whose elapsed_time returns microseconds instead of milliseconds."""

    def new_event(self, *, timing: bool = False) -> Any:
        class EventInMicroseconds(FakeEvent):
            def elapsed_time(self, end: FakeEvent) -> float:
                return super().elapsed_time(end) * 1000.0

        return EventInMicroseconds(self, timing)


class SynchronizeDoesNotWait(FakeDeviceApi):
    """A device whose synchronize returns without waiting."""

    def synchronize(self) -> None:
        pass


class OneCurrentStreamForAllThreads(FakeDeviceApi):
    """A device with one current stream for all threads."""

    def current_stream(self) -> Any:
        return self.__dict__.get("everyones", self.default)

    @contextlib.contextmanager
    def use_stream(self, stream: Any) -> Iterator[None]:
        before = self.current_stream()
        self.everyones = stream
        with DeferCalls(stream):
            yield
        self.everyones = before
