"""Functions for streams and events of hpu.

`Stream` and `Event` derive from `torch.Stream` and `torch.Event`, so functions of torch accept them. Work on
one stream runs in order. Work on different streams is ordered by events only, except that `set_stream` makes
the new stream wait for the default stream.

Under ``torch.compile``, streams and events are part of the graph. Dynamo supports the current stream and
``with stream(s)`` only for torch's own types. Therefore the functions of this module return a `torch.Stream`
while Dynamo traces; this stream equals the `Stream` of eager mode. Dynamo does not support `set_stream`,
`StreamContext` and `Event.elapsed_time`, which break the graph. In a graph, the target of
``with stream(s) as target`` is None.
"""

from __future__ import annotations

import contextlib
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE_NUMBER

import torch

from ._utils import _get_device_index
from .stream_state import StreamContext as StreamContext
from .stream_state import _current_stream as _current_stream
from .stream_state import _set_stream_by_id as _set_stream_by_id
from .stream_state import set_stream as set_stream
from .stream_types import Event as Event
from .stream_types import Stream as Stream

# True if torch.Stream is a context manager, so that Dynamo can trace `with stream(s)`. In older releases of
# torch, Dynamo breaks the graph at the functions of this module.
_IS_TRACED = hasattr(torch.Stream, "__enter__")


def stream(stream: torch.Stream | None) -> contextlib.AbstractContextManager[Any]:
    """Return a context manager that makes a stream the current stream of this thread."""
    if _IS_TRACED and torch.compiler.is_dynamo_compiling():
        return contextlib.nullcontext() if stream is None else stream
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """Return the current stream of this thread."""
    if _IS_TRACED and torch.compiler.is_dynamo_compiling():
        return torch.accelerator.current_stream()  # type: ignore[return-value]
    return _current_stream(device)


def default_stream(device: Any = None) -> Stream:
    """Return the default stream, which has the id 0 and is the initial current stream of each thread."""
    if _IS_TRACED and torch.compiler.is_dynamo_compiling():
        return torch.Stream(stream_id=0, device_index=0, device_type=DEVICE_TYPE_NUMBER)  # type: ignore[return-value]
    return Stream(device_index=_get_device_index(device, optional=True), is_default_stream=True)


def get_stream_info(stream: torch.Stream) -> tuple[torch.device, int]:
    """Return the device and the id of a stream."""
    return stream.device, stream.stream_id


def record_stream(tensor: torch.Tensor, stream: torch.Stream) -> None:
    """Prevent reuse of a tensor's memory until the work that is currently in the stream has run."""
    tensor.record_stream(stream)
