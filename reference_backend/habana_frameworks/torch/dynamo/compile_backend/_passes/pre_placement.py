"""Passes that simplify a graph before its nodes are placed."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from .. import config, inductor
from ..aliases import AliasSets, written_arguments
from ..context import OptimizerContext, graph_outputs, has_same_metadata, value_of

aten = torch.ops.aten

_CLONES = (aten.clone.default, aten.alias.default, aten.lift_fresh.default)
_EXPANDS = (aten.expand.default,)
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
_BATCHED = (aten.bmm.default, aten.baddbmm.default)
_NEW_TENSORS = (
    aten.empty.memory_format,
    aten.empty_strided.default,
    aten.empty_like.default,
    aten.new_empty.default,
    aten.full.default,
    aten.full_like.default,
    aten.zeros.default,
    aten.ones.default,
)


def pass_fake_propagation(ctx: OptimizerContext) -> bool:
    """Recompute fake values if they do not agree with the inputs, whose strides may differ from the trace."""
    graph = ctx.graph_module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    all_traced = all("val" in node.meta for node in graph.nodes if node.op == "call_function")
    if all_traced and all(map(_has_traced_strides, placeholders, ctx.example_inputs)):
        return False
    inductor.view_to_reshape(ctx.graph_module)
    before = ctx.fake_mode.allow_non_fake_inputs
    ctx.fake_mode.allow_non_fake_inputs = True
    try:
        propagation = FakeTensorProp(ctx.graph_module, mode=ctx.fake_mode)
        with torch.no_grad():
            propagation.propagate_dont_convert_inputs(*ctx.example_inputs)
    finally:
        ctx.fake_mode.allow_non_fake_inputs = before
    return True


def _has_traced_strides(node: Node, value: Any) -> bool:
    traced = value_of(node)
    if not isinstance(value, torch.Tensor) or not isinstance(traced, torch.Tensor):
        return type(traced) is type(value)
    if traced is value:
        return True
    if value.layout != torch.strided or traced.layout != torch.strided:
        return False
    return [str(s) for s in traced.stride()] == [str(s) for s in value.stride()]


def pass_remove_unnecessary_clones(ctx: OptimizerContext) -> bool:
    """Remove clones that cannot be distinguished from their source."""
    if not config.remove_unnecessary_clones:
        return False
    return _replace_by_source(ctx, lambda node: node.args[0] if node.target in _CLONES else None)


def pass_remove_unnecessary_full_copy(ctx: OptimizerContext) -> bool:
    """Remove copies into tensors that were created only as the destination of the copy."""
    if not config.reassign_full_copy:
        return False

    def source_of_copy(node: Node) -> Any:
        if node.target is not aten.copy.default:
            return None
        destination = node.args[0]
        if not isinstance(destination, Node) or destination.target not in _NEW_TENSORS:
            return None
        return node.args[1] if len(destination.users) == 1 else None

    return _replace_by_source(ctx, source_of_copy)


def pass_remove_unnecessary_expand(ctx: OptimizerContext) -> bool:
    """Remove expansions to the size that a tensor already has."""
    return _replace_by_source(ctx, lambda node: node.args[0] if node.target in _EXPANDS else None)


def pass_remove_unnecessary_bmm_view(ctx: OptimizerContext) -> bool:
    """Remove views to the same size before or after bmm, which the decomposition of matmul creates."""

    def source_of_view(node: Node) -> Any:
        if node.target not in _VIEWS:
            return None
        around = {*node.users, *node.all_input_nodes}
        return node.args[0] if any(neighbour.target in _BATCHED for neighbour in around) else None

    return _replace_by_source(ctx, source_of_view)


def _replace_by_source(ctx: OptimizerContext, source_of: Any) -> bool:
    """Replace each node by `source_of(node)` if both have the same metadata and may share memory.

    AOTAutograd has decided which outputs share memory with which inputs. Therefore an output must not start
    to share memory with another output or an input.
    """
    graph = ctx.graph_module.graph
    aliases = AliasSets(graph)
    outputs = {node for node in graph_outputs(ctx.graph_module) if isinstance(node, Node)}
    written = {argument for node in graph.nodes for argument in written_arguments(node)}
    changed = False
    for node in list(graph.nodes):
        if node.op != "call_function" or node in outputs:
            continue
        source = source_of(node)
        if not isinstance(source, Node) or not has_same_metadata(source, node):
            continue
        ours, source_aliases = aliases.possible_aliases_of(node), aliases.possible_aliases_of(source)
        if not written.isdisjoint(ours | source_aliases):
            continue
        if ours is not source_aliases:
            lasts = not outputs.isdisjoint(source_aliases) or any(
                alias.op != "call_function" for alias in source_aliases
            )
            if lasts and not outputs.isdisjoint(ours):
                continue
            if aliases.is_storage_addressed(node):
                continue
        node.replace_all_uses_with(source)
        aliases.record_shared_memory(node, source)
        aliases.remove_node(node)
        graph.erase_node(node)
        changed = True
    if changed:
        graph.eliminate_dead_code()
        ctx.graph_module.recompile()
    return changed
