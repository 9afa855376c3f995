"""Passes that decide where each node runs, and passes that remove unnecessary nodes."""

from __future__ import annotations

import operator
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch
from torch.fx import Node

from .. import recipe_support
from ..aliases import is_view
from ..context import OptimizerContext, Placement, graph_outputs, is_mutating, tensors_in, value_of

aten = torch.ops.aten

_COPIES_OF_CONSTANTS = (aten.lift_fresh_copy.default, aten.clone.default, aten._to_copy.default)


def pass_mark_placement(ctx: OptimizerContext) -> bool:
    """Write the placement of each node to ``node.meta["placement"]``."""
    constants: set[Node] = set()
    for node in ctx.graph_module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        placement = recipe_support.placement_of(node, ctx.fused)
        if node.target is operator.getitem and isinstance(node.args[0], Node):
            placement = node.args[0].meta.get("placement", Placement.CALL)
        elif node.op == "get_attr":
            if placement is Placement.CLUSTER and not _can_be_copied(ctx, node):
                placement = Placement.CALL
            elif placement is Placement.CLUSTER:
                constants.add(node)
        elif placement is Placement.CLUSTER:
            if node.all_input_nodes and constants.issuperset(node.all_input_nodes) and not is_mutating(node):
                constants.add(node)
            if not _devices_fit(ctx, node, constants):
                placement = Placement.CALL
        node.meta["placement"] = placement
    return True


def _can_be_copied(ctx: OptimizerContext, node: Node) -> bool:
    """Return whether a recipe may contain a constant. Fused recipes copy it, so nothing may change it."""
    return not ctx.fused or ctx.frozen or all(user.target in _COPIES_OF_CONSTANTS for user in node.users)


def _devices_fit(ctx: OptimizerContext, node: Node, constants: set[Node]) -> bool:
    """Return whether a recipe can contain a node with this combination of devices.

    Recipes take hpu tensors. An interpreted recipe would store the captured value of a CPU tensor. A fused
    recipe accepts CPU tensors without dimensions (the step count of an optimizer) and constants.
    """
    results = list(tensors_in(value_of(node)))
    sources = [t for n in node.all_input_nodes if n not in constants for t in tensors_in(value_of(n))]
    for tensor in (*results, *sources):
        if tensor.device.type == DEVICE_TYPE:
            continue
        if tensor.device.type != "cpu" or not ctx.fused:
            return False
        if tensor.dim() > 0 and node not in constants:
            return False
    return True


def pass_eagerize_leaf_views(ctx: OptimizerContext) -> bool:
    """Run views separately if the graph only returns them: interpreted recipes do not return views."""
    if ctx.fused:
        return False
    changed = False
    outputs = {node for node in graph_outputs(ctx.graph_module) if isinstance(node, Node)}
    for node in reversed(ctx.graph_module.graph.nodes):
        if node.meta.get("placement") is not Placement.CLUSTER or not is_view(node):
            continue
        if all(
            user.op == "output" or (user in outputs and _is_view_outside_recipe(user)) for user in node.users
        ):
            node.meta["placement"] = Placement.CALL
            changed = True
    return changed


def _is_view_outside_recipe(node: Node) -> bool:
    return node.meta.get("placement") is Placement.CALL and is_view(node)


def pass_replace_sym_size(ctx: OptimizerContext) -> bool:
    """Use the symbolic sizes among the graph's inputs instead of reading sizes from tensors."""
    graph = ctx.graph_module.graph
    size_inputs: dict[Any, Node] = {}
    for node in graph.nodes:
        value = value_of(node)
        if node.op == "placeholder" and isinstance(value, torch.SymInt):
            size_inputs.setdefault(value.node.expr, node)
    changed = False
    for node in list(graph.nodes):
        value = value_of(node)
        if node.target not in (aten.sym_size.int, aten.sym_stride.int) or not isinstance(value, torch.SymInt):
            continue
        if value.node.expr in size_inputs:
            node.replace_all_uses_with(size_inputs[value.node.expr])
            graph.erase_node(node)
            changed = True
    if changed:
        ctx.graph_module.recompile()
    return changed
