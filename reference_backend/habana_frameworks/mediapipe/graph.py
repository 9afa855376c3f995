"""The graph of an image pipeline: its operators (`Node`), their results (`NodeOutput`), and `evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class NodeOutput:
    """One result of a node, as an edge of the graph; it does not contain data."""

    def __init__(self, node: Node, result_index: int) -> None:
        self.node, self.index = node, result_index


class Node:
    """An operator of a pipeline. Calling the node connects its inputs to results of other nodes."""

    #: Number of results of the operator.
    RESULTS = 1

    def __init__(self) -> None:
        self.inputs: Sequence[NodeOutput] = ()

    def __call__(self, *inputs: NodeOutput) -> Any:
        """Connect the node to its inputs, and return its result, or a tuple if `RESULTS` is above 1."""
        self.inputs = inputs
        values = tuple(NodeOutput(self, result_index) for result_index in range(self.RESULTS))
        return values if len(values) > 1 else values[0]

    def compute(self, *inputs: Any) -> Any:
        """Return the data of the results for one batch: one value, or a tuple if `RESULTS` is above 1."""
        raise NotImplementedError


def evaluate(outputs: Sequence[NodeOutput]) -> list[Any]:
    """Return the data of the given results for one batch. Each node is computed once."""
    done: dict[int, Any] = {}

    def result(value: NodeOutput) -> Any:
        node = value.node
        if id(node) not in done:
            done[id(node)] = node.compute(*(result(input_value) for input_value in node.inputs))
        node_result = done[id(node)]
        return node_result[value.index] if node.RESULTS > 1 else node_result

    return [result(value) for value in outputs]
