"""Streams and events: torch's own classes, bound to hpu.

Both derive from `torch.Stream` and `torch.Event`, so that everything that takes those takes these. Work on
one stream runs in order; work on different streams is ordered by events only, apart from one rule of
`set_stream`.

Under ``torch.compile`` streams and events are part of the graph. Dynamo knows the current stream and the
blocks that enter a stream in torch's own form only, so functions of this module lead it there; what a
compiled function gets is therefore a `torch.Stream`, equal to the `Stream` of eager mode. torch lacks such a
form for `set_stream`, `StreamContext` and `Event.elapsed_time`, which end the graph, and for the target of
``with stream(s) as target``, which is None in a graph.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from ._utils import _get_device_index
from .stream_state import StreamContext
from .stream_state import _current_stream as _current_stream
from .stream_state import _set_stream_by_id as _set_stream_by_id
from .stream_state import set_stream as set_stream
from .stream_types import _HPU, Stream
from .stream_types import Event as Event

# Older releases cannot enter a stream, and their Dynamo ends the graph here in any case.
_IS_TRACED = hasattr(torch.Stream, "__enter__")


def stream(stream: torch.Stream | None) -> contextlib.AbstractContextManager[Any]:
    """`StreamContext` of a stream."""
    if _IS_TRACED and torch.compiler.is_dynamo_compiling():
        return contextlib.nullcontext() if stream is None else stream
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The current stream of this thread."""
    if _IS_TRACED and torch.compiler.is_dynamo_compiling():
        return torch.accelerator.current_stream()  # type: ignore[return-value]
    return _current_stream(device)


def default_stream(device: Any = None) -> Stream:
    """The stream that is current if none was set; its id is 0."""
    if _IS_TRACED and torch.compiler.is_dynamo_compiling():
        return torch.Stream(stream_id=0, device_index=0, device_type=_HPU)  # type: ignore[return-value]
    return Stream(device_index=_get_device_index(device, optional=True), is_default_stream=True)


def get_stream_info(stream: torch.Stream) -> tuple[torch.device, int]:
    """Device and id of a stream."""
    return stream.device, stream.stream_id


def record_stream(tensor: torch.Tensor, stream: torch.Stream) -> None:
    """Keep the memory of a tensor from being reused before the work that is now in the stream has run."""
    tensor.record_stream(stream)
