"""Write a cluster as text, in the form of a JIT graph, and as DOT."""

from __future__ import annotations

import logging
from typing import Any

from habana_frameworks.torch.internal import graph_dumps, logs

from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate

from .context import Partition
from .log import logger


def log_graph(partition: Partition) -> None:
    """Log the graph of a cluster at level DEBUG, and as a torch artifact if torch's settings request it."""
    logs.log_recipe(partition.name, lambda: graph_as_text(partition))
    if logger.is_enabled_for(logging.DEBUG):
        logger.debug(
            "####PyTorch-generated JIT IR graph of %s:\n%s", partition.name, graph_as_text(partition)
        )


def graph_as_text(partition: Partition) -> str:
    """Return the graph of a cluster as text, with lines ``%result = namespace::name(arguments)``."""
    assert partition.module is not None
    lines = []
    for node in partition.module.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            lines.append(f"  return ({', '.join(_argument_text(value) for value in node.args[0])})")
        else:
            arguments = [_argument_text(a) for a in node.args] + [
                f"{k}={_argument_text(v)}" for k, v in node.kwargs.items()
            ]
            lines.append(f"  %{node.name} = {_operator_text(node)}({', '.join(arguments)})")
    inputs = ", ".join(f"%{node.name}" for node in partition.inputs)
    return "\n".join([f"graph({inputs}):", *lines])


def dump_cluster(partition: Partition) -> None:
    """Write the graph of a cluster if the environment requests graphs of torch.compile."""
    assert partition.module is not None
    dumped = _DumpableGraph(graph_as_text(partition), partition.module.graph)
    graph_dumps.dump_if_requested(dumped, partition.name, "compile")


def dump_unpartitioned_graph(module: GraphModule, name: str) -> None:
    """Write the graph before it is divided into clusters, if the environment requests such graphs."""
    graph_dumps.dump_if_requested(_DumpableGraph(str(module.graph), module.graph), name, "compile_fx")


class _DumpableGraph:
    """A graph with the `dump` method that `graph_dumps` expects."""

    def __init__(self, text: str, graph: Graph) -> None:
        self._text = text
        self._graph = graph

    def dump(self, form: str) -> str:
        if form == "text":
            return self._text + "\n"
        lines = ["digraph compiled {", "  node [fontname=monospace];"]
        for node in self._graph.nodes:
            shape = "ellipse" if node.op in ("placeholder", "get_attr") else "box"
            label = node.name if node.op != "call_function" else f"{node.name} = {_operator_text(node)}"
            lines.append(f'  {node.name} [shape={shape}, label="{label}"];')
            lines += [f"  {used.name} -> {node.name};" for used in node.all_input_nodes]
        return "\n".join([*lines, "}", ""])


def _operator_text(node: Node) -> str:
    if node.op == "get_attr":
        return "prim::Constant"
    if isinstance(node.target, OpOverload):
        return node.target._schema.name
    return f"prim::{getattr(node.target, '__name__', node.target)}"


def _argument_text(value: Any) -> str:
    return str(map_aggregate(value, lambda leaf: f"%{leaf.name}" if isinstance(leaf, Node) else leaf))
