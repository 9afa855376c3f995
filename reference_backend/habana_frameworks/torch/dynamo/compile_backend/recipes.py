"""Makes the recipe of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from . import config
from ._passes.utils import OptimizerContext, Partition

Recipe = Callable[[list[Any]], Sequence[Any]]

#: Runs of recipes by what ran: ``fused`` code, an ``interpreted`` recipe, or its operators one by one
#: (``calls``: the run that is captured, and graphs that cannot be).
_executed = {"fused": 0, "interpreted": 0, "calls": 0}


def executed_graphs() -> dict[str, int]:
    """How many recipes have run so far, by kind of executable."""
    return dict(_executed)


def count(kind: str) -> None:
    """Note a run."""
    _executed[kind] += 1


def make(
    ctx: OptimizerContext, partition: Partition, visible: Sequence[int]
) -> tuple[Recipe, list[Any] | None]:
    """The recipe of a cluster, and the strides of its outputs where it was free to choose them.

    Args:
        ctx: the graph that the cluster is of.
        partition: the cluster, with `module`.
        visible: positions of the outputs whose strides must be as traced.
    """
    from . import fused, interpreted

    assert partition.module is not None
    if not ctx.fused:
        return interpreted.InterpretedRecipe(partition.module, partition.name), None
    compiler = fused.FusedCompiler(
        partition.module,
        partition.name,
        visible,
        is_inference=not ctx.is_training,
        is_backward=ctx.is_backward,
        frozen=ctx.frozen,
        decompose=config.decomposition_mode not in ("habana", "inductor"),
    )
    if ctx.is_dynamic and config.force_static_compile:
        return fused.StaticRecipes(compiler), None
    recipe, strides = compiler.compile([node.meta["val"] for node in partition.inputs], ctx.fake_mode)
    return recipe, strides


def by_calls(module: GraphModule) -> Recipe:
    """A callable that runs the operators of a cluster one by one."""

    def run(inputs: list[Any]) -> Sequence[Any]:
        count("calls")
        with torch.no_grad():
            results = module(*inputs)
        inputs.clear()
        return results

    return run
