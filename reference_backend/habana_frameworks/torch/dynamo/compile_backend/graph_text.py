"""A cluster as text, in the form of a JIT graph."""

from __future__ import annotations

import logging
from typing import Any

from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_aggregate

from .context import Partition
from .log import logger


def log_graph(partition: Partition) -> None:
    """Log the graph of a cluster, at level DEBUG."""
    if logger.is_enabled_for(logging.DEBUG):
        logger.debug("####PyTorch-generated JIT IR graph of %s:\n%s", partition.name, text_of(partition))


def text_of(partition: Partition) -> str:
    """The graph of a cluster: one line for each operator, ``%result = namespace::name(arguments)``."""
    assert partition.module is not None
    lines = []
    for node in partition.module.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            lines.append(f"  return ({', '.join(_word(value) for value in node.args[0])})")
        else:
            arguments = [_word(a) for a in node.args] + [f"{k}={_word(v)}" for k, v in node.kwargs.items()]
            lines.append(f"  %{node.name} = {_operator(node)}({', '.join(arguments)})")
    inputs = ", ".join(f"%{node.name}" for node in partition.inputs)
    return "\n".join([f"graph({inputs}):", *lines])


def _operator(node: Node) -> str:
    if node.op == "get_attr":
        return "prim::Constant"
    if isinstance(node.target, OpOverload):
        return node.target._schema.name
    return f"prim::{getattr(node.target, '__name__', node.target)}"


def _word(value: Any) -> str:
    return str(map_aggregate(value, lambda leaf: f"%{leaf.name}" if isinstance(leaf, Node) else leaf))
