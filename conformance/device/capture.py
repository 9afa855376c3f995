"""Device graphs: capturing a call and replaying it, in the one way in which properties do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.target.target import Target


class Captured:
    """A captured call. ``value`` is what the call returned: its tensors get new values with each replay."""

    def __init__(self, graph: Any, value: Any, target: Target) -> None:
        self.value = value
        self._graph = graph
        self._target = target

    def replay(self) -> None:
        """Run the graph again and wait for it."""
        self._graph.replay()
        self._target.synchronize()

    def start(self) -> None:
        """Run the graph again on the current stream; returns at once."""
        self._graph.replay()


@contextlib.contextmanager
def side_stream(target: Target) -> Iterator[None]:
    """Make a new stream current: a device may not allow capture on its default stream."""
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


def captured(target: Target, call: Callable[[], Any]) -> Captured:
    """Return ``call`` captured into a graph. Whatever it raises leaves no capture open.

    The graph may or may not have run once when this returns.
    """
    target.synchronize()
    graph = target.graph()
    with side_stream(target):
        graph.capture_begin()
        try:
            value = call()
        except BaseException:
            # The first error is the one to report; ending a broken capture may raise another.
            with contextlib.suppress(Exception):
                graph.capture_end()
            raise
        graph.capture_end()
    target.synchronize()
    return Captured(graph, value, target)
