"""Passes that let operators of interpreted recipes overwrite an input which is not used again.

Inductor does this for fused recipes.
"""

from __future__ import annotations

import torch
from torch.fx import Node

from .. import config
from ..context import (
    OptimizerContext,
    Placement,
    graph_outputs,
    same_metadata,
    storage_of,
    tensors_in,
    value_of,
)

aten = torch.ops.aten

_ADD = {aten.add.Tensor: aten.add_.Tensor, aten.add.Scalar: aten.add_.Scalar}
_INDEX_COPY = {aten.index_copy.default: aten.index_copy_.default}
_INPLACEABLE = {
    aten.index_put.default: aten.index_put_.default,
    aten.index_add.default: aten.index_add_.default,
    aten.index_fill.int_Scalar: aten.index_fill_.int_Scalar,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.scatter_add.default: aten.scatter_add_.default,
}


def pass_reinplace_inplaceable_ops(ctx: OptimizerContext) -> bool:
    """Make indexed writes, such as those of a key-value cache, write in place."""
    return _reinplace(ctx, _INPLACEABLE)


def pass_reinplace_index_copy_ops(ctx: OptimizerContext) -> bool:
    """Make index_copy write in place."""
    return bool(config.use_inplace_index_copy) and _reinplace(ctx, _INDEX_COPY)


def pass_reinplace_add_ops(ctx: OptimizerContext) -> bool:
    """Make add write in place."""
    return bool(config.reinplace_add) and _reinplace(ctx, _ADD)


def _reinplace(ctx: OptimizerContext, table: dict) -> bool:
    if ctx.fused:
        return False
    graph = ctx.graph_module.graph
    changed = False
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in table:
            continue
        if node.meta.get("placement", Placement.CLUSTER) is not Placement.CLUSTER:
            continue
        base = node.args[0]
        if not isinstance(base, Node) or not same_metadata(base, node) or not _is_dense(base):
            continue
        if any(
            storage_of(source) == storage_of(base) for source in node.all_input_nodes if source is not base
        ):
            continue
        epilogue = _copy_back(node, base)
        if epilogue is None and base.op != "call_function":
            continue
        if not _is_last_use(ctx, base, node, epilogue):
            continue
        if epilogue is not None:
            epilogue.replace_all_uses_with(node)
            graph.erase_node(epilogue)
        node.target = table[node.target]
        node.meta["val"] = value_of(base)
        changed = True
    if changed:
        ctx.graph_module.recompile()
    return changed


def _copy_back(node: Node, base: Node) -> Node | None:
    """The copy of the result into the input at the end of a graph that writes to its input, or None."""
    if base.op != "placeholder":
        return None
    for user in base.users:
        if user.target is aten.copy_.default and user.args[:2] == (base, node):
            return user
    return None


def _is_dense(node: Node) -> bool:
    # Writing over a tensor that overlaps itself would write elements twice.
    value = value_of(node)
    return isinstance(value, torch.Tensor) and all(
        isinstance(size, torch.SymInt) or size <= 1 or stride != 0
        for size, stride in zip(value.shape, value.stride(), strict=True)
    )


def _is_last_use(ctx: OptimizerContext, base: Node, node: Node, epilogue: Node | None) -> bool:
    """Say whether nothing reads the memory of `base` after `node`, except through the result."""
    storage = storage_of(base)
    if storage is None:
        return False
    aliases = [alias for alias in ctx.graph_module.graph.nodes if storage_of(alias) == storage]
    if epilogue is None and any(alias.op != "call_function" for alias in aliases):
        return False
    if any(alias in aliases for alias in graph_outputs(ctx.graph_module)):
        return False
    readers = {user for alias in aliases for user in alias.users}
    readers -= {node, epilogue}
    return all(reader < node for reader in readers) and any(True for _ in tensors_in(value_of(node)))
