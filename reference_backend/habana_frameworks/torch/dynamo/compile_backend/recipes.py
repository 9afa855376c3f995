"""Create the recipe of a cluster: fused code or an interpreted capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import config
from .context import OptimizerContext, Partition
from .operator_by_operator import Recipe
from .operator_by_operator import executed_graphs as executed_graphs  # target files contain this import path


def make_recipe(
    ctx: OptimizerContext, partition: Partition, fixed_stride_outputs: Sequence[int]
) -> tuple[Recipe, list[Any] | None]:
    """Create the recipe of a cluster.

    Args:
        ctx: the graph to which the cluster belongs.
        partition: the cluster; its attribute `module` is set.
        fixed_stride_outputs: positions of the outputs whose strides must be as traced.

    Returns:
        The recipe, and the strides of its outputs; None in place of the strides if they are as traced.
    """
    # Imported here, because programs that only read the counters import this module and do not need Inductor.
    from . import fused, interpreted

    assert partition.module is not None
    if not ctx.fused:
        return interpreted.InterpretedRecipe(partition.module, partition.name), None
    compiler = fused.FusedCompiler(
        partition.module,
        partition.name,
        fixed_stride_outputs,
        is_inference=not ctx.is_training,
        is_backward=ctx.is_backward,
        frozen=ctx.frozen,
        decompose=config.decomposition_mode not in ("habana", "inductor"),
    )
    if ctx.is_dynamic and config.force_static_compile:
        return fused.StaticRecipes(compiler), None
    recipe, strides = compiler.compile([node.meta["val"] for node in partition.inputs], ctx.fake_mode)
    return recipe, strides
