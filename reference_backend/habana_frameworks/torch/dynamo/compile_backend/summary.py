"""Counts of operators by placement, for registered listeners."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .context import OptimizerContext, Placement, tensors_in, value_of
from .log import logger
from .shared_layer import is_arithmetic, operator_name


@dataclass
class OpCount:
    """Number of occurrences of an operator in one graph.

    Attributes:
        graph_count: in recipes.
        eager_count: outside recipes.
    """

    graph_count: int = 0
    eager_count: int = 0

    def __add__(self, other: OpCount) -> OpCount:
        return OpCount(self.graph_count + other.graph_count, self.eager_count + other.eager_count)


@dataclass
class GraphSummary:
    """One compiled graph.

    Attributes:
        name: its name.
        ops: operator name to counts, for operators whose results are on hpu.
        other_ops: the same for all other operators.
    """

    name: str
    ops: dict[str, OpCount]
    other_ops: dict[str, OpCount]


#: Lists to which `record` appends the summary of every graph that is compiled.
listeners: list[list[GraphSummary]] = []


def record(ctx: OptimizerContext) -> None:
    """Summarise a graph, whose partitions are known, for all listeners."""
    summary = GraphSummary(ctx.graph_name, {}, {})
    for partition in ctx.partitions:
        for node in partition.nodes:
            if node.op != "call_function" or is_arithmetic(node.target):
                continue
            tensors = list(tensors_in(value_of(node)))
            on_device = bool(tensors) and all(_is_on_hpu(tensor) for tensor in tensors)
            counts = (summary.ops if on_device else summary.other_ops).setdefault(
                operator_name(node), OpCount()
            )
            if partition.placement is Placement.CLUSTER:
                counts.graph_count += 1
            else:
                counts.eager_count += 1
    clusters = sum(partition.placement is Placement.CLUSTER for partition in ctx.partitions)
    logger.info(
        "%s has %d recipes and %d calls between them",
        ctx.graph_name,
        clusters,
        len(ctx.partitions) - clusters,
    )
    for listener in listeners:
        listener.append(summary)


def _is_on_hpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "hpu"
