"""Passes that let operators of interpreted recipes overwrite an input that is not used afterwards.

Inductor does the same for fused recipes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from .. import config
from ..aliases import AliasSets
from ..context import (
    OptimizerContext,
    Placement,
    graph_outputs,
    has_same_metadata,
    has_same_storage_offset,
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
    """Make indexed writes, such as updates of a key-value cache, write in place."""
    return _make_operators_write_in_place(ctx, _INPLACEABLE)


def pass_reinplace_index_copy_ops(ctx: OptimizerContext) -> bool:
    """Make index_copy write in place."""
    return bool(config.use_inplace_index_copy) and _make_operators_write_in_place(ctx, _INDEX_COPY)


def pass_reinplace_add_ops(ctx: OptimizerContext) -> bool:
    """Make add write in place."""
    return bool(config.reinplace_add) and _make_operators_write_in_place(ctx, _ADD)


def _make_operators_write_in_place(ctx: OptimizerContext, in_place_variants: dict[Any, OpOverload]) -> bool:
    if ctx.fused:
        return False
    graph = ctx.graph_module.graph
    aliases = AliasSets(graph)
    changed = False
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in in_place_variants:
            continue
        if node.meta.get("placement", Placement.CLUSTER) is not Placement.CLUSTER:
            continue
        base = node.args[0]
        if not isinstance(base, Node) or not has_same_metadata(base, node) or not _is_dense_node(base):
            continue
        if _reads_base_through_another_argument(node, base, aliases) or aliases.is_storage_addressed(node):
            continue
        epilogue = _copy_back_node(node, base)
        if epilogue is None and not (base.op == "call_function" and has_same_storage_offset(base, node)):
            continue
        if not _is_last_use(ctx, base, node, epilogue, aliases):
            continue
        if epilogue is not None:
            epilogue.replace_all_uses_with(node)
            aliases.remove_node(epilogue)
            graph.erase_node(epilogue)
        node.target = in_place_variants[node.target]
        node.meta["val"] = value_of(base)
        aliases.record_shared_memory(node, base)
        changed = True
    if changed:
        ctx.graph_module.recompile()
    return changed


def _reads_base_through_another_argument(node: Node, base: Node, aliases: AliasSets) -> bool:
    """Return whether a node also reads the memory of `base` through another argument."""
    remaining_arguments: list[Node] = []
    map_arg((node.args[1:], node.kwargs), remaining_arguments.append)
    if node.target in _ADD:
        # An elementwise operator reads each element before it writes the element, so another argument may be
        # `base` itself. The other argument must not be a view of `base`, because the operator may overwrite
        # elements of the view before it reads the elements.
        remaining_arguments = [argument for argument in remaining_arguments if argument is not base]
    return any(aliases.may_share_memory(argument, base) for argument in remaining_arguments)


def _copy_back_node(node: Node, base: Node) -> Node | None:
    """Return the node that copies the result of `node` to the graph input `base`, or None.

    A graph that writes to an input ends with a copy to this input.
    """
    if base.op != "placeholder":
        return None
    for user in base.users:
        if user.target is aten.copy_.default and user.args[:2] == (base, node):
            return user
    return None


def _is_dense_node(node: Node) -> bool:
    # Writing in place to a tensor that overlaps itself would write some elements twice.
    value = value_of(node)
    dims = list(zip(value.stride(), value.shape, strict=True))
    if any(isinstance(number, torch.SymInt) for dim in dims for number in dim):
        return all(isinstance(size, torch.SymInt) or size <= 1 or stride != 0 for stride, size in dims)
    span = 0
    for stride, size in sorted(dims):
        if size > 1 and stride <= span:
            return False
        span += (size - 1) * stride
    return True


def _is_last_use(
    ctx: OptimizerContext, base: Node, node: Node, epilogue: Node | None, aliases: AliasSets
) -> bool:
    """Return whether the memory of `base` is not read after `node`, except through the result."""
    shared = aliases.possible_aliases_of(base)
    if any(alias.op != "call_function" for alias in shared if epilogue is None or alias is not base):
        return False
    outputs = {output for output in graph_outputs(ctx.graph_module) if isinstance(output, Node)}
    # The graph may return the written input itself, but no other tensor over the memory of the input.
    lasting = shared if epilogue is None else shared | aliases.possible_aliases_of(node)
    if not outputs.isdisjoint(lasting - {epilogue}):
        return False
    readers = {user for alias in shared for user in alias.users} - {node, epilogue}
    return all(reader < node for reader in readers if reader.op != "output")
