"""Nodes of a pipeline, and what they compute for one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Value:
    """One result of a node."""

    def __init__(self, node: Node, place: int) -> None:
        self.node, self.place = node, place


class Node:
    """An operator of a pipeline; a call connects it to the results of others."""

    #: Number of results.
    RESULTS = 1

    def __init__(self) -> None:
        self.inputs: Sequence[Value] = ()

    def __call__(self, *inputs: Value) -> Any:
        """Connect to inputs; return the result, or as many as there are."""
        self.inputs = inputs
        values = tuple(Value(self, place) for place in range(self.RESULTS))
        return values if len(values) > 1 else values[0]

    def compute(self, *inputs: Any) -> Any:
        """Compute a batch: one result, or a tuple of `RESULTS`."""
        raise NotImplementedError


def evaluate(outputs: Sequence[Value]) -> list[Any]:
    """Compute one batch of some results; each node once."""
    done: dict[int, Any] = {}

    def result(value: Value) -> Any:
        node = value.node
        if id(node) not in done:
            done[id(node)] = node.compute(*(result(one) for one in node.inputs))
        found = done[id(node)]
        return found[value.place] if node.RESULTS > 1 else found

    return [result(value) for value in outputs]
