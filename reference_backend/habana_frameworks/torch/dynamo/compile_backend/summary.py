"""Count operators by placement, for listeners and for files (``PT_COMPILATION_STATS_PATH``)."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE
from habana_frameworks.torch.internal.settings import bridge_config

import torch

from .context import OptimizerContext, Placement, tensors_in, value_of
from .log import logger
from .recipe_support import is_python_arithmetic, operator_name


@dataclass
class OpCount:
    """Number of occurrences of an operator in one graph.

    Attributes:
        graph_count: occurrences in recipes.
        eager_count: occurrences outside recipes.
    """

    graph_count: int = 0
    eager_count: int = 0

    def __add__(self, right: OpCount) -> OpCount:
        return OpCount(self.graph_count + right.graph_count, self.eager_count + right.eager_count)


@dataclass
class GraphSummary:
    """Operator counts of one compiled graph.

    Attributes:
        name: name of the graph.
        ops: operator name to counts, for operators whose results are on hpu.
        other_ops: operator name to counts, for all other operators.
    """

    name: str
    ops: dict[str, OpCount]
    other_ops: dict[str, OpCount]


#: Lists to which the summary of every compiled graph is appended.
listeners: list[list[GraphSummary]] = []


def write_if_requested(ctx: OptimizerContext, seconds: float) -> Path | None:
    """Write the summary of a compiled graph as JSON to the folder ``PT_COMPILATION_STATS_PATH``, if set.

    Args:
        ctx: the compiled graph.
        seconds: duration of the compilation.

    Returns:
        The file, ``{name of the graph}_{process id}.json``. None if no folder is set, or if the file could
        not be written (with a warning).
    """
    folder = str(bridge_config.value_of("PT_COMPILATION_STATS_PATH"))
    if not folder:
        return None
    counts = _graph_summary(ctx)
    content = asdict(counts) | {
        "seconds": seconds,
        "training": ctx.is_training,
        "dynamic": ctx.is_dynamic,
        "recipes": _cluster_count(ctx),
        "calls": len(ctx.partitions) - _cluster_count(ctx),
    }
    path = Path(folder) / f"{ctx.graph_name}_{os.getpid()}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n")
    except OSError as error:
        warnings.warn(
            f"{path} could not be written ({error}). Set PT_COMPILATION_STATS_PATH to a writable folder.",
            stacklevel=2,
        )
        return None
    return path


def record_summary(ctx: OptimizerContext) -> None:
    """Append the summary of a partitioned graph to all listeners, and log the numbers."""
    logger.info(
        "%s has %d recipes and %d calls between them",
        ctx.graph_name,
        _cluster_count(ctx),
        len(ctx.partitions) - _cluster_count(ctx),
    )
    if listeners:
        summary = _graph_summary(ctx)
        for listener in listeners:
            listener.append(summary)


def _cluster_count(ctx: OptimizerContext) -> int:
    return sum(partition.placement is Placement.CLUSTER for partition in ctx.partitions)


def _graph_summary(ctx: OptimizerContext) -> GraphSummary:
    summary = GraphSummary(ctx.graph_name, {}, {})
    for partition in ctx.partitions:
        for node in partition.nodes:
            if node.op != "call_function" or is_python_arithmetic(node.target):
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
    return summary


def _is_on_hpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == DEVICE_TYPE
