"""Capture a call into a device graph and replay the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.target.target import Target


class Captured:
    """A captured call. Each replay writes new values into the tensors of ``value``, the result of the
    call.
    """

    def __init__(self, graph: Any, value: Any, target: Target) -> None:
        self.value = value
        self._graph = graph
        self._target = target

    def replay(self) -> None:
        """Replay the graph and wait for it."""
        self._graph.replay()
        self._target.synchronize()

    def start(self) -> None:
        """Start a replay of the graph on the current stream and return at once."""
        self._graph.replay()


@contextlib.contextmanager
def side_stream(target: Target) -> Iterator[None]:
    """Make a new stream current, because a device may not allow capture on its default stream."""
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


def capture_call(target: Target, call: Callable[[], Any]) -> Captured:
    """Return ``call`` captured into a graph. If it raises, the capture is ended first.

    The graph may or may not have run once.
    """
    target.synchronize()
    graph = target.graph()
    with side_stream(target):
        graph.capture_begin()
        try:
            value = call()
        except BaseException:
            # Report the first error. Ending a broken capture may raise a second one.
            with contextlib.suppress(Exception):
                graph.capture_end()
            raise
        graph.capture_end()
    target.synchronize()
    return Captured(graph, value, target)
