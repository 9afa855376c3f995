"""The nodes of a pipeline, and `evaluate`, which computes one batch of their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Value:
    """One result of a node."""

    def __init__(self, node: Node, result_index: int) -> None:
        self.node, self.place = node, result_index


class Node:
    """An operator of a pipeline. A call connects it to results of other nodes."""

    #: Number of results.
    RESULTS = 1

    def __init__(self) -> None:
        self.inputs: Sequence[Value] = ()

    def __call__(self, *inputs: Value) -> Any:
        """Connect the node to inputs. Return its result, or a tuple of `RESULTS` results."""
        self.inputs = inputs
        values = tuple(Value(self, result_index) for result_index in range(self.RESULTS))
        return values if len(values) > 1 else values[0]

    def compute(self, *inputs: Any) -> Any:
        """Compute a batch: one result, or a tuple of `RESULTS` results."""
        raise NotImplementedError


def evaluate(outputs: Sequence[Value]) -> list[Any]:
    """Compute one batch of the given results. Each node is computed once."""
    done: dict[int, Any] = {}

    def result(value: Value) -> Any:
        node = value.node
        if id(node) not in done:
            done[id(node)] = node.compute(*(result(input_value) for input_value in node.inputs))
        node_result = done[id(node)]
        return node_result[value.place] if node.RESULTS > 1 else node_result

    return [result(value) for value in outputs]
