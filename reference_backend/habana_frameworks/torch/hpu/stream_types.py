"""`Event` and `Stream`: subclasses of torch's classes, bound to hpu."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE, DEVICE_TYPE_NUMBER

import torch

from ._utils import _get_device_index
from .initialization import _lazy_init


class Event(torch.Event):
    """A marker in a stream's work, for waiting and for measuring time.

    Args:
        enable_timing: allow `elapsed_time`.
        blocking: a thread that waits for the event sleeps, if the device supports this.
        interprocess: not supported by the device; the argument is passed to torch.
        device: the device of this process, by default the current device.

    An event that was never recorded is treated as complete: `query` returns True, and `synchronize` does not
    wait.
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
        self = super().__new__(cls, device=DEVICE_TYPE, **options)
        # torch measures time only between instances of torch.Event, not of subclasses. So this event contains
        # a torch.Event.
        self._clock = torch.Event(device=DEVICE_TYPE, enable_timing=True) if enable_timing else None
        return self

    def record(self, stream: torch.Stream | None = None) -> None:
        """Record the event after the work that is currently in a stream, by default the current stream."""
        if self._clock is not None:
            self._clock.record(stream)  # before the event, so that _clock is complete when the event is
        super().record(stream)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Return the milliseconds between this event and a later event.

        Raises:
            RuntimeError: an event was never recorded or is not complete, or the events are on different
                devices.
            ValueError: an event was created without ``enable_timing=True``.
        """
        if end_event.device.type != DEVICE_TYPE:
            raise RuntimeError(
                f"events on {DEVICE_TYPE} and on {end_event.device} do not share a clock. Use two events of "
                "one device."
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
        device: the device of this process, by default the current device.
        priority: accepted; the device has one priority, 0.
        stream_id, device_index, device_type: together they identify an existing stream. If they are passed,
            the object refers to that stream.
        stream_ptr: id of an existing stream, to which the object refers.
        is_default_stream: use the default stream.

    Attributes:
        stream_id, hpu_stream: id of the stream; the default stream has the id 0.
        device: `torch.device` of the stream.
        device_index: integer index of the device, as in every `torch.Stream`.
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
        """Create a stream or refer to an existing stream, and acquire the device."""
        _lazy_init()
        if is_default_stream:
            stream_id = 0
        elif stream_id is None:
            stream_id = stream_ptr
        if stream_id is None:
            index = _get_device_index(device, optional=True)
            return super().__new__(cls, device=torch.device(DEVICE_TYPE, index), priority=0)
        return super().__new__(
            cls,
            stream_id=stream_id,
            device_index=device_index or 0,
            device_type=DEVICE_TYPE_NUMBER if device_type is None else device_type,
        )

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return (0, -1), the lowest and highest priority. On this device they have the same effect."""
        return 0, -1

    @property
    def hpu_stream(self) -> int:
        """Return the id of the stream."""
        return self.stream_id

    def id(self) -> int:
        """Return the id of the stream."""
        return self.stream_id

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record an event (by default a new one) after the stream's current work, and return the event."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def wait_event(self, event: torch.Event) -> None:
        """Make later work of this stream wait until the event is complete."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Make later work of this stream wait until the work that is currently in `stream` has run."""
        self.wait_event(stream.record_event())

    def __repr__(self) -> str:
        return f"torch.{DEVICE_TYPE}.Stream(device={self.device}, stream_id={self.stream_id})"
