"""Capture a call into a device graph and replay the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.target.target import Target


class CapturedCall:
    """A call that was captured into a device graph. ``value`` is the result of the call; each replay writes
    new values into its tensors.
    """

    def __init__(self, graph: Any, value: Any, target: Target) -> None:
        self.value = value
        self._graph = graph
        self._target = target

    def replay(self) -> None:
        """Replay the graph and wait until the replay has finished."""
        self.start_replay()
        self._target.synchronize()

    def start_replay(self) -> None:
        """Start a replay of the graph on the current stream, without waiting for it."""
        self._graph.replay()


@contextlib.contextmanager
def side_stream(target: Target) -> Iterator[None]:
    """Make a new stream the current stream inside this context, because a device may not allow capture on its
    default stream.
    """
    if target.is_cpu or not target.capable("streams"):
        yield
        return
    before = torch.accelerator.current_stream()
    stream = torch.Stream(device=target.device)
    stream.wait_stream(before)
    torch.accelerator.set_stream(stream)
    try:
        yield
    finally:
        torch.accelerator.set_stream(before)
        before.wait_stream(stream)


def capture_call(target: Target, call: Callable[[], Any]) -> CapturedCall:
    """Capture ``call`` into a device graph. If ``call`` raises, end the capture and raise the error.

    Some devices run the call during the capture, other devices only record the call.
    """
    target.synchronize()
    graph = target.graph()
    with side_stream(target):
        graph.capture_begin()
        try:
            value = call()
        except BaseException:
            # Report the first error. Ending a broken capture may raise a second error.
            with contextlib.suppress(Exception):
                graph.capture_end()
            raise
        graph.capture_end()
    target.synchronize()
    return CapturedCall(graph, value, target)
