"""Passes that compile clusters to recipes and the whole graph to a callable."""

from __future__ import annotations

import time
from typing import Any

from habana_frameworks.torch import _C

import torch
from torch.fx import Node

from .. import config, graph_text, operator_by_operator, recipes, summary
from ..context import OptimizerContext, Placement, graph_outputs, value_of
from ..schedule import PartitionSchedule
from .partitioner import dissolve_clusters


def pass_summarize_graph(ctx: OptimizerContext) -> bool:
    """Count the graph's operators by placement for `FxGraphAnalyzer`, and log the numbers."""
    summary.record_summary(ctx)
    return False


def pass_check_eager_fallbacks(ctx: OptimizerContext) -> bool:
    """Reject operators that recipes cannot contain if ``use_eager_fallback`` is off.

    Raises:
        AssertionError: the graph has nodes with placement `EAGER`; the message names the nodes.
    """
    eager = [node for p in ctx.partitions if p.placement is Placement.EAGER for node in p.nodes]
    assert config.use_eager_fallback or not eager, (
        f"Eager fallback in nodes {', '.join(f'{node.name} ({node.target})' for node in eager)} of "
        f"{ctx.graph_name}: each requires fallback, and use_eager_fallback is off"
    )
    return False


def pass_compile_clusters(ctx: OptimizerContext) -> bool:
    """Compile each cluster to a recipe."""
    returned = graph_outputs(ctx.graph_module)
    visible = {
        returned[i] for i in ctx.fixed_stride_outputs if i < len(returned) and isinstance(returned[i], Node)
    }
    strides: dict[Node, Any] = {}
    for partition in ctx.partitions:
        if partition.module is None:
            continue
        graph_text.log_graph(partition)
        graph_text.dump_cluster(partition)
        if not ctx.use_recipes:
            partition.recipe = operator_by_operator.make_operator_by_operator_recipe(partition.module)
            continue
        start = time.perf_counter()
        must_keep = [
            index
            for index, node in enumerate(partition.outputs)
            if node in visible or any(user.op != "output" for user in node.users)
        ]
        partition.recipe, partition.output_strides = recipes.make_recipe(ctx, partition, must_keep)
        strides.update(zip(partition.outputs, partition.output_strides or (), strict=False))
        _record_compilation_time(partition.name, time.perf_counter() - start)
    if ctx.fused:
        ctx.output_strides = [strides.get(node) if isinstance(node, Node) else None for node in returned]
    return True


def pass_make_boxed_graph(ctx: OptimizerContext) -> bool:
    """Set ``ctx.executable``. If ``use_boxed_input`` is on, the callable takes its inputs in one list."""
    ctx.executable = make_executable(ctx, boxed=bool(config.use_boxed_input))
    return True


def make_executable(ctx: OptimizerContext, boxed: bool) -> Any:
    """Return a callable that runs the partitions in order.

    Args:
        ctx: the graph. If a cluster has no recipe, all nodes run one by one.
        boxed: the callable takes one list, which it empties, instead of separate arguments.
    """
    if (
        any(p.placement is Placement.CLUSTER and p.recipe is None for p in ctx.partitions)
        or not ctx.partitions
    ):
        dissolve_clusters(ctx)
    schedule = PartitionSchedule(ctx.graph_module, ctx.partitions, _traced_strides_of_outputs(ctx))

    def run(inputs: list[Any]) -> Any:
        return schedule(inputs)

    if boxed:
        # `run` is a function and not a callable object, because functools.wraps copies the attributes of a
        # function, but not the attributes of a class.
        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def unboxed(*inputs: Any) -> Any:
        return schedule(list(inputs))

    return unboxed


def _traced_strides_of_outputs(ctx: OptimizerContext) -> dict[Node, tuple[int, ...]]:
    """Return the traced strides of the outputs, except outputs of fused recipes, whose strides may differ."""
    fused = {node for p in ctx.partitions if p.output_strides is not None for node in p.outputs}
    expected = {}
    for node in graph_outputs(ctx.graph_module):
        value = value_of(node) if isinstance(node, Node) and node.op == "call_function" else None
        if node in fused or not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            continue
        strides = value.stride()
        if all(isinstance(stride, int) for stride in strides):
            expected[node] = tuple(strides)
    return expected


def _record_compilation_time(name: str, seconds: float) -> None:
    record = getattr(_C, "record_compilation", None)
    if record is not None:
        record(name, int(seconds * 1e6))
