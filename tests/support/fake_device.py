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


class Stream:
    def __init__(self, api: Api) -> None:
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

    def record_event(self) -> Event:
        event = self.api.event(timing=True)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        self.push(event.synchronize)

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())


class Event:
    def __init__(self, api: Api, timing: bool) -> None:
        self.api, self.timing = api, timing
        self.stream: Stream | None = None
        self.place = 0
        self.time = 0.0

    def record(self, stream: Stream) -> None:
        def stamp() -> None:
            self.time = self.api.clock

        self.stream = stream
        stream.push(stamp)
        self.place = stream.pushed_count

    def wait(self, stream: Stream) -> None:
        stream.wait_event(self)

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.run(self.place)

    def query(self) -> bool:
        return self.stream is None or self.stream.done >= self.place

    def elapsed_time(self, end: Event) -> float:
        if not (self.timing and end.timing and self.stream and end.stream):
            raise RuntimeError("both events must keep time and be recorded")
        return end.time - self.time


class Deferring(TorchDispatchMode):
    """Dispatch mode that queues each in-place call on ``stream``. Any other call runs immediately, before the
    queued work.
    """

    def __init__(self, stream: Stream) -> None:
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


class Api(DeviceApi):
    """The API of a correct fake device. Subclasses add one fault each."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.clock = 0.0
        self.streams: list[Stream] = []
        self.default = self.stream()
        self.local = threading.local()
        self.free: dict[int, list[torch.Tensor]] = {}
        self.busy: dict[int, Stream] = {}
        self.names = itertools.count()

    def stream(self) -> Any:
        self.streams.append(Stream(self))
        return self.streams[-1]

    def event(self, *, timing: bool = False) -> Any:
        return Event(self, timing)

    def current(self) -> Any:
        return getattr(self.local, "stream", self.default)

    @contextlib.contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        before = self.current()
        self.local.stream = stream
        try:
            with Deferring(stream):
                yield
        finally:
            self.local.stream = before

    def delay(self, seconds: float) -> bool:
        def pass_time() -> None:
            self.clock += seconds * 1000

        self.current().push(pass_time)
        return True

    def empty(self, size: int) -> torch.Tensor:
        free = self.free.setdefault(size, [])
        memory = free.pop() if free else torch.empty(size, dtype=torch.int64)
        tensor = memory.detach()
        weakref.finalize(tensor, self.release, size, memory)
        return tensor

    def release(self, size: int, memory: torch.Tensor) -> None:
        stream = self.busy.pop(memory.data_ptr(), None)
        if stream is None or not stream.queue:
            self.free[size].append(memory)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone()

    def record_stream(self, tensor: torch.Tensor, stream: Any) -> None:
        self.busy[tensor.data_ptr()] = stream

    def synchronize(self) -> None:
        for stream in self.streams:
            stream.synchronize()

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        with _disable_current_modes():  # so that queued work runs and is not queued again
            self.current().synchronize()
        return tensor.clone()

    def waits(self) -> Mapping[str, Callable[[Any, Any], None]]:
        return {
            "Stream.synchronize": lambda stream, event: stream.synchronize(),
            "Event.synchronize": lambda stream, event: event.synchronize(),
            "synchronize": lambda stream, event: self.synchronize(),
        }


class StreamGraph(Graph):
    """A graph whose replay is work of the current stream."""

    api: Api

    def replay(self) -> None:
        self.api.current().push(super().replay)


class EagerGraph(StreamGraph):
    """A graph that is replayed immediately, before the queued work of the current stream."""

    def replay(self) -> None:
        Graph.replay(self)


class OutOfOrder(Api):
    """A device that runs the newest work of a stream first."""

    def stream(self) -> Any:
        class Reversed(Stream):
            def run(self, until: int) -> None:
                while self.done < until:
                    self.queue.pop()()
                    self.done += 1

        self.streams.append(Reversed(self))
        return self.streams[-1]


class DeafToEvents(Api):
    """A device that ignores waits between streams."""

    def stream(self) -> Any:
        class Deaf(Stream):
            def wait_event(self, event: Event) -> None:
                pass

        self.streams.append(Deaf(self))
        return self.streams[-1]


class StoppedClock(Api):
    """A device whose elapsed_time returns the time of the second event instead of the difference."""

    def event(self, *, timing: bool = False) -> Any:
        class Absolute(Event):
            def elapsed_time(self, end: Event) -> float:
                return end.time

        return Absolute(self, timing)


class Forgiving(Api):
    """A device whose elapsed_time accepts events that were not recorded."""

    def event(self, *, timing: bool = False) -> Any:
        class Any_(Event):
            def elapsed_time(self, end: Event) -> float:
                return end.time - self.time

        return Any_(self, timing)


class AlwaysDone(Api):
    """A device whose events always report that their work is done."""

    def event(self, *, timing: bool = False) -> Any:
        class Done(Event):
            def query(self) -> bool:
                return True

        return Done(self, timing)


class Waiting(Api):
    """A device on which leaving a stream's context waits for the work of the stream."""

    @contextlib.contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        with super().on(stream):
            yield
        stream.synchronize()


class Reusing(Api):
    """A device that reuses memory which other streams still use."""

    def record_stream(self, tensor: torch.Tensor, stream: Any) -> None:
        pass


class EagerWaits(Api):
    """A device on which wait_event blocks the host until the event's work is done."""

    def stream(self) -> Any:
        class Blocking(Stream):
            def wait_event(self, event: Event) -> None:
                event.synchronize()

        self.streams.append(Blocking(self))
        return self.streams[-1]


class HastyCopies(Api):
    """A device whose copies to the host do not wait for pending work."""

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone()


class LateCopies(Api):
    """A device that runs the queued copies of a stream after all other queued work of the stream."""

    def stream(self) -> Any:
        class Late(Stream):
            def run(self, until: int) -> None:
                self.queue.sort(key=lambda work: getattr(work, "func", None) is torch.ops.aten.copy_.default)
                super().run(until)

        self.streams.append(Late(self))
        return self.streams[-1]


class ReusingPinned(Api):
    """A device that reuses the memory of a freed pinned tensor while a copy from this memory is queued."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.freed: list[torch.Tensor] = []

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        with _disable_current_modes():
            fits = [index for index, memory in enumerate(self.freed) if memory.nbytes == tensor.nbytes]
            memory = self.freed.pop(fits[0]) if fits else torch.empty_like(tensor).view(torch.uint8)
            pinned = memory.view(tensor.dtype)
            weakref.finalize(pinned, self.freed.append, memory)
            return pinned.copy_(tensor)


class SmallClock(Api):
    """A device that measures zero time for any work."""

    def event(self, *, timing: bool = False) -> Any:
        class Still(Event):
            def elapsed_time(self, end: Event) -> float:
                return super().elapsed_time(end) * 0.0

        return Still(self, timing)


class WrongUnit(Api):
    """A device whose elapsed_time returns microseconds instead of milliseconds."""

    def event(self, *, timing: bool = False) -> Any:
        class Micro(Event):
            def elapsed_time(self, end: Event) -> float:
                return super().elapsed_time(end) * 1000.0

        return Micro(self, timing)


class NeverWaits(Api):
    """A device whose synchronize returns without waiting."""

    def synchronize(self) -> None:
        pass


class OneStreamForAll(Api):
    """A device with one current stream for all threads."""

    def current(self) -> Any:
        return self.__dict__.get("everyones", self.default)

    @contextlib.contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        before = self.current()
        self.everyones = stream
        with Deferring(stream):
            yield
        self.everyones = before
