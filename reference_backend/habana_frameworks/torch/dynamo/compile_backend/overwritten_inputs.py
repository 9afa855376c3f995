"""Retain the old values of inputs that a graph overwrites, if other nodes or graphs need the old values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from habana_frameworks.torch.internal.fusion import input_updates

import torch
from torch.fx import GraphModule, Node

from .aliases import AliasSets, written_arguments
from .context import value_of

aten = torch.ops.aten


def save_copies_of_written(forward: GraphModule, backward: GraphModule, num_outputs: int) -> None:
    """Make a forward graph save copies of the inputs that it writes to, with the values before the writes.

    A forward graph writes to its inputs at its end. The partitioner of AOTAutograd may still save a written
    input, or a view of the input, to recompute a value in the backward graph. The backward graph then reads
    the overwritten values (pytorch/pytorch#197039 describes the fault). Writes that AOTAutograd leaves to the
    runtime are not in the graph and are not handled here.

    Args:
        forward: the forward graph; its outputs are changed.
        backward: the backward graph, whose inputs have the names of the saved outputs; it is changed too.
        num_outputs: number of outputs of the forward graph that are not saved values.

    Raises:
        NotImplementedError: the backward graph uses the storage of a written input (as_strided), not only its
            elements.
    """
    written = {node for call in forward.graph.nodes for node in written_arguments(call)}
    if not written:
        return
    aliases, read = AliasSets(forward.graph), AliasSets(backward.graph)
    changed = {alias for node in written for alias in aliases.possible_aliases_of(node)}
    result = next(iter(forward.graph.find_nodes(op="output")))
    inputs = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    saved: list[object] = []
    for node in result.args[0][num_outputs:]:
        if not isinstance(node, Node) or node not in changed or not isinstance(value_of(node), torch.Tensor):
            saved.append(node)
            continue
        input_node = inputs[node.name]
        if read.is_storage_addressed(input_node):
            raise NotImplementedError(
                f"as_strided in a backward pass reads {node.name}, which the forward pass overwrites: "
                "clone the tensor first"
            )
        copied = _insert_clone(forward, node)
        if _replace_input_by_copy(backward, input_node, copied):
            saved.append(node)
        saved.append(copied)
    result.args = ([*result.args[0][:num_outputs], *saved],)
    forward.recompile()
    backward.recompile()


def retain_overwritten_values(graph_module: GraphModule, returned: Collection[int]) -> None:
    """Make the values that a graph stores or returns independent of its stores to inputs.

    Inductor's joint-graph passes replace a copy of an input by the input, even if the graph overwrites the
    input before it uses the copy (docs/torch-bugs.md#exchanged-inputs).

    Args:
        graph_module: the graph; it is changed.
        returned: positions of the outputs that must not share memory with an overwritten input. The
            others are inputs, views of inputs, saved values, or outputs of a backward graph.
    """
    graph = graph_module.graph
    stores = [node for node in graph.nodes if node.target is aten.copy_.default]
    if not stores:
        return

    def add(op: Any, value: Node, **options: Any) -> Node:
        with graph.inserting_before(stores[0]):
            node = graph.call_function(op, (value,), options)
        node.meta["val"] = op(value_of(value), **options)
        return node

    overwritten = input_updates.overwritten_inputs(node.args[0] for node in stores)
    result = next(iter(graph.find_nodes(op="output")))
    result.args = (
        [
            input_updates.copy_if_input_is_overwritten(node, overwritten, add)
            if position in returned and isinstance(node, Node) and isinstance(value_of(node), torch.Tensor)
            else node
            for position, node in enumerate(result.args[0])
        ],
    )
    updates = input_updates.copy_values_in_overwritten_inputs(
        [(node.args[0], node.args[1]) for node in stores], add
    )
    for node, (_, value) in zip(stores, updates, strict=True):
        node.update_arg(1, value)
    graph_module.recompile()


def _insert_clone(graph_module: GraphModule, node: Node) -> Node:
    """Insert a clone of a tensor before any write. The clone may have other strides than the tensor."""
    graph = graph_module.graph
    last = list(graph.find_nodes(op="placeholder"))[-1] if node.op == "placeholder" else node
    with graph.inserting_after(last):
        copied = graph.call_function(aten.clone.default, (node,))
    copied.meta = {**node.meta, "val": aten.clone.default(value_of(node))}
    return copied


def _replace_input_by_copy(graph_module: GraphModule, input_node: Node, copied: Node) -> bool:
    """Make a backward graph read a copy instead of an input. The copy becomes a new input after the original.

    Return True if the graph also writes to the original input. In this case, the original input remains.
    """
    graph = graph_module.graph
    writes = [user for user in input_node.users if input_node in written_arguments(user)]
    with graph.inserting_after(input_node):
        read = graph.placeholder(copied.name)
    read.meta = {**input_node.meta, "val": copied.meta["val"]}
    input_node.replace_all_uses_with(read, delete_user_cb=lambda user: user not in writes)
    if not writes:
        graph.erase_node(input_node)
    return bool(writes)
