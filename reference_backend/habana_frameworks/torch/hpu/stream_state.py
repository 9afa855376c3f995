"""Functions that read and set the current stream of a thread. Dynamo must not trace these functions."""

from __future__ import annotations

from typing import Any

import torch

from ._utils import _get_device_index
from .initialization import _lazy_init
from .stream_types import Stream


class StreamContext:
    """Context manager that makes a stream the current stream of this thread; None leaves it unchanged."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous: list[torch.Stream] = []

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self._previous.append(_current_stream())
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None:
            torch._C._accelerator_setStream(self._previous.pop())


def _current_stream(device: Any = None) -> Stream:
    """Return the current stream of this thread; the eager implementation of `streams.current_stream`."""
    index = _get_device_index(device, optional=True)
    _lazy_init()
    return _as_hpu_stream(torch._C._accelerator_getStream(index))


def set_stream(stream: torch.Stream | None) -> None:
    """Make a stream the current stream of this thread; None leaves it unchanged.

    If the previous stream is the default stream, the new stream waits for the work already queued there.
    """
    if stream is None:
        return
    previous = _current_stream()
    if previous.stream_id == 0 and stream.stream_id != 0:
        stream.wait_stream(previous)
    torch._C._accelerator_setStream(stream)


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    torch._C._accelerator_setStream(
        Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
    )


def _as_hpu_stream(stream: torch.Stream) -> Stream:
    return Stream(
        stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
    )
