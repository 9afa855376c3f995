"""`Event` and `Stream`: torch's own classes, bound to hpu."""

from __future__ import annotations

from typing import Any

import torch

from ._utils import _get_device_index
from .initialization import _lazy_init

_HPU = int(torch._C._autograd.DeviceType.HPU)


class Event(torch.Event):
    """A marker in a stream's work, to wait for or to measure time with.

    Args:
        enable_timing: allow `elapsed_time`.
        blocking: a thread that waits for the event sleeps, if the device makes that distinction.
        interprocess: not supported by the device; passed on to torch.
        device: the device of this process, by default the current one.

    An event that was never recorded counts as complete: `query` is true and `synchronize` returns.
    """

    _clock: torch.Event | None

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        device: Any = None,
    ) -> Event:
        """Create the event and acquire the device."""
        _get_device_index(device, optional=True)
        _lazy_init()
        options = {"enable_timing": enable_timing, "blocking": blocking, "interprocess": interprocess}
        self = super().__new__(cls, device="hpu", **options)
        # torch measures time only between events of exactly its own class, so this event has one of those.
        self._clock = torch.Event(device="hpu", enable_timing=True) if enable_timing else None
        return self

    def record(self, stream: torch.Stream | None = None) -> None:
        """Put the marker behind the work that is in a stream, by default the current stream."""
        if self._clock is not None:
            self._clock.record(stream)  # first: complete when the event is
        super().record(stream)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds between this event and a later one.

        Raises:
            RuntimeError: one of them was never recorded or is not complete, or they are on different devices.
            ValueError: one of them was made without ``enable_timing=True``.
        """
        if end_event.device.type != "hpu":
            raise RuntimeError(
                f"an event on hpu and one on {end_event.device} share no clock: use two events of one device"
            )
        if not (self.event_id and end_event.event_id):
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        start, end = self._clock, getattr(end_event, "_clock", end_event)
        if start is None or end is None:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        return start.elapsed_time(end)


class Stream(torch.Stream):
    """A queue of work on the device.

    Args:
        device: the device of this process, by default the current one.
        priority: accepted; the device has one priority, 0.
        stream_id, device_index, device_type: together they name an existing stream instead of making one.
        stream_ptr: id of an existing stream.
        is_default_stream: name the default stream.

    Attributes:
        stream_id, hpu_stream: id of the stream; 0 is the default one.
        device: its `torch.device`.
        device_index: an integer, as of every `torch.Stream`.
        priority: 0.
    """

    priority = 0

    def __new__(
        cls,
        device: Any = None,
        priority: int = 0,
        *,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
        stream_ptr: int | None = None,
        is_default_stream: bool = False,
    ) -> Stream:
        """Create a stream, or name an existing one, and acquire the device."""
        _lazy_init()
        if is_default_stream:
            stream_id = 0
        elif stream_id is None:
            stream_id = stream_ptr
        if stream_id is None:
            index = _get_device_index(device, optional=True)
            return super().__new__(cls, device=torch.device("hpu", index), priority=0)
        return super().__new__(
            cls,
            stream_id=stream_id,
            device_index=device_index or 0,
            device_type=_HPU if device_type is None else device_type,
        )

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Lowest and highest priority in the form of the public contract, (0, -1); both mean 0."""
        return 0, -1

    @property
    def hpu_stream(self) -> int:
        """Id of the stream."""
        return self.stream_id

    def id(self) -> int:
        """Id of the stream."""
        return self.stream_id

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record an event, a new one by default, behind the work that is in the stream; returns it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def wait_event(self, event: torch.Event) -> None:
        """Hold later work of this stream back until the event is complete."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Hold later work of this stream back until the work that is now in `stream` has run."""
        self.wait_event(stream.record_event())

    def __repr__(self) -> str:
        return f"torch.hpu.Stream(device={self.device}, stream_id={self.stream_id})"
