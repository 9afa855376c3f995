"""Copies of what a forward graph overwrites before its backward graph reads it."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from .aliases import Aliases, is_view, possible_bases, written_by
from .context import value_of

aten = torch.ops.aten


def save_copies_of_written(forward: GraphModule, backward: GraphModule, num_outputs: int) -> None:
    """Let a forward graph save copies of the inputs that it writes to, as they were before.

    Writes to inputs stand at the end of a forward graph. The partitioner of AOTAutograd may still save such
    an input, or a view of it, and compute a value from it again in the backward graph, which then reads what
    was written (pytorch/pytorch#197039 describes the fault).

    Args:
        forward: the forward graph; its outputs change.
        backward: the backward graph; it gets an input more for each tensor that it writes to as well.
        num_outputs: number of outputs of the forward graph that are not saved.
    """
    written = {node for call in forward.graph.nodes for node in written_by(call)}
    if not written:
        return
    aliases = Aliases(forward.graph)
    changed = {alias for node in written for alias in aliases.of(node)}
    result = next(iter(forward.graph.find_nodes(op="output")))
    inputs = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    saved: list[object] = []
    for node in result.args[0][num_outputs:]:
        if not isinstance(node, Node) or node not in changed or not isinstance(value_of(node), torch.Tensor):
            saved.append(node)
            continue
        copied = _copy(forward, node)
        if _split(backward, inputs[node.name], copied):
            saved.append(node)
        saved.append(copied)
    result.args = ([*result.args[0][:num_outputs], *saved],)
    forward.recompile()
    backward.recompile()


def _copy(graph_module: GraphModule, node: Node) -> Node:
    """Copy a tensor before anything is written; a view that is not dense is made again, of a copy."""
    graph, value = graph_module.graph, value_of(node)
    last = list(graph.find_nodes(op="placeholder"))[-1] if node.op == "placeholder" else node
    copy = aten.clone.default(value)
    if copy.stride() != value.stride() and is_view(node):
        (base,) = possible_bases(node)
        with graph.inserting_after(last):
            copied = graph.call_function(node.target, node.args, node.kwargs)
        copied.replace_input_with(base, _copy(graph_module, base))
        copied.meta["val"] = copied.target(
            *map_arg(copied.args, value_of), **map_arg(copied.kwargs, value_of)
        )
        return copied
    if copy.stride() != value.stride():
        raise NotImplementedError(
            f"the forward pass writes to {node.name}, whose strides are {tuple(value.stride())}, and the "
            "backward pass needs what was there before: make it contiguous"
        )
    with graph.inserting_after(last):
        copied = graph.call_function(aten.clone.default, (node,))
    copied.meta["val"] = copy
    return copied


def _split(graph_module: GraphModule, given: Node, copied: Node) -> bool:
    """Let a backward graph that writes to an input read another one instead; False if it writes to none."""
    graph = graph_module.graph
    writes = [user for user in given.users if given in written_by(user)]
    if not writes:
        return False
    with graph.inserting_after(given):
        read = graph.placeholder(copied.name)
    read.meta["val"] = copied.meta["val"]
    given.replace_all_uses_with(read, delete_user_cb=lambda user: user not in writes)
    return True
