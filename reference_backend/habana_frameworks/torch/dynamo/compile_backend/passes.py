"""Define the order of the passes, and run them."""

from __future__ import annotations

import os
from collections.abc import Callable

from ._passes import partitioner, placement, post_partitioner, pre_placement, reinplace
from .context import OptimizationPassPlacement, OptimizerContext
from .log import logger
from .option_values import ON

Pass = Callable[[OptimizerContext], bool]


def passes_by_stage() -> dict[OptimizationPassPlacement, list[Pass]]:
    """Return the passes of each stage, in execution order."""
    return {
        OptimizationPassPlacement.PRE_PLACEMENT: [
            pre_placement.pass_fake_propagation,
            pre_placement.pass_remove_unnecessary_clones,
            pre_placement.pass_remove_unnecessary_full_copy,
            pre_placement.pass_remove_unnecessary_expand,
            pre_placement.pass_remove_unnecessary_bmm_view,
            reinplace.pass_reinplace_inplaceable_ops,
            placement.pass_mark_placement,
        ],
        OptimizationPassPlacement.PRE_PARTITIONER: [
            placement.pass_eagerize_leaf_views,
            reinplace.pass_reinplace_index_copy_ops,
            reinplace.pass_reinplace_add_ops,
            placement.pass_replace_sym_size,
        ],
        OptimizationPassPlacement.PARTITIONER: [
            partitioner.pass_propose_partitions,
            partitioner.pass_make_symints_available,
            partitioner.pass_fuse_partitions,
        ],
        OptimizationPassPlacement.POST_PARTITIONER: [
            post_partitioner.pass_summarize_graph,
            post_partitioner.pass_check_eager_fallbacks,
            post_partitioner.pass_compile_clusters,
            post_partitioner.pass_make_boxed_graph,
        ],
    }


#: If one of these passes is disabled, recipes cannot be created.
MAKING_RECIPES = (
    "pass_mark_placement",
    "pass_propose_partitions",
    "pass_fuse_partitions",
    "pass_compile_clusters",
)


def is_disabled(name: str) -> bool:
    """Return whether ``PT_HPU_DISABLE_<name>`` disables a pass."""
    return os.environ.get(f"PT_HPU_DISABLE_{name}", "").strip().lower() in ON


def optimize_graph(ctx: OptimizerContext) -> None:
    """Run all enabled passes, and set `ctx.executable` to the result.

    Raises:
        AssertionError: see `pass_check_eager_fallbacks`.
    """
    for stage, members in passes_by_stage().items():
        ctx.stage = stage
        for member in members:
            name = member.__name__
            if is_disabled(name):
                logger.debug("%s: %s is disabled", ctx.graph_name, name)
                continue
            changed = member(ctx)
            logger.trace("%s: %s%s", ctx.graph_name, name, " changed the graph" if changed else "")
    if ctx.executable is None:
        ctx.executable = post_partitioner.make_executable(ctx, boxed=False)
