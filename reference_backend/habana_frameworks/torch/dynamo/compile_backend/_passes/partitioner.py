"""Passes that divide a graph into partitions. Each partition runs as a unit."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ..aliases import AliasSets, written_arguments
from ..context import (
    OptimizerContext,
    Partition,
    Placement,
    graph_outputs,
    is_mutating,
    leaves_with_symbols,
    value_of,
)


def pass_propose_partitions(ctx: OptimizerContext) -> bool:
    """Divide the graph, in order, into clusters and single nodes between clusters.

    The pass extends one cluster at a time. A single node that does not depend on this cluster is moved before
    the cluster, so that the cluster can take further nodes.
    """
    partitions: list[Partition] = []
    partition_of: dict[Node, Partition] = {}
    aliases = AliasSets(ctx.graph_module.graph) if ctx.fused else None
    cluster_inputs = _ClusterInputs(aliases)
    for node in ctx.graph_module.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        placement = node.meta.get("placement", Placement.CALL)
        if node.target is operator.getitem and partition_of.get(node.args[0]) is not None:
            partition = partition_of[node.args[0]]
            if partition.placement is Placement.CLUSTER:
                partition.nodes.append(node)
                partition_of[node] = partition
                if partition is partitions[-1]:
                    cluster_inputs.add_node(node)
                continue
        last = partitions[-1] if partitions else None
        open_cluster = last if last is not None and last.placement is Placement.CLUSTER else None
        if placement is Placement.CLUSTER and open_cluster is not None and cluster_inputs.may_add_node(node):
            cluster_inputs.add_node(node)
            open_cluster.nodes.append(node)
            partition_of[node] = open_cluster
            continue
        partition = Partition(f"{ctx.graph_name}_{len(partitions)}", [node], placement)
        partition_of[node] = partition
        if placement is Placement.CLUSTER:
            cluster_inputs = _ClusterInputs(aliases)
            cluster_inputs.add_node(node)
        elif open_cluster is not None and _may_move_before_cluster(node, open_cluster, partition_of):
            partitions.insert(len(partitions) - 1, partition)
            continue
        partitions.append(partition)
    ctx.partitions = partitions
    connect_partitions(ctx)
    return True


class _ClusterInputs:
    """The inputs of a cluster: nodes outside the cluster that the cluster reads or writes.

    A fused recipe assumes that its inputs do not share memory, because it may write to one input before it
    reads another. Therefore a cluster that writes to an input must not take a view of this input as an input.

    Args:
        aliases: aliases of the graph. None for interpreted recipes, whose inputs may share memory.
    """

    def __init__(self, aliases: AliasSets | None) -> None:
        self._aliases = aliases
        self._inside: set[Node] = set()
        self._outside: set[Node] = set()
        self._written: set[Node] = set()

    def may_add_node(self, node: Node) -> bool:
        """Return whether the node can be added to the cluster."""
        if self._aliases is None:
            return True
        sources = set(node.all_input_nodes) - self._inside
        written = set(written_arguments(node))
        outside = self._outside | sources if written else self._outside
        return not any(
            self._aliases.may_share_memory(first, second) and first is not second
            for firsts, seconds in ((written, outside), (self._written, sources))
            for first in firsts
            for second in seconds
        )

    def add_node(self, node: Node) -> None:
        """Add a node to the cluster."""
        self._outside.update(set(node.all_input_nodes) - self._inside)
        self._written.update(written_arguments(node))
        self._inside.add(node)


def _may_move_before_cluster(node: Node, cluster: Partition, partition_of: dict[Node, Partition]) -> bool:
    if any(partition_of.get(source) is cluster for source in node.all_input_nodes):
        return False
    # Only the schema of an `OpOverload` declares writes. Other targets, such as higher-order operators,
    # are not moved, because they may write.
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target is operator.getitem
    return not is_mutating(node) and not any(map(is_mutating, cluster.nodes))


def pass_make_symints_available(ctx: OptimizerContext) -> bool:
    """Add the symbolic sizes that a cluster uses to the inputs of the cluster."""
    if not ctx.is_dynamic:
        return False
    graph = ctx.graph_module.graph
    sources: dict[Any, Node] = {}
    for node in graph.nodes:
        symbol = _symbol(value_of(node))
        if symbol is not None:
            sources.setdefault(symbol, node)
    position = {node: index for index, node in enumerate(graph.nodes)}
    changed = False
    for partition in ctx.partitions:
        if partition.placement is not Placement.CLUSTER:
            continue
        inside = set(partition.nodes)
        needed: set[Any] = set()
        for node in (*partition.nodes, *partition.inputs):
            for leaf in leaves_with_symbols(value_of(node)):
                needed |= torch.fx.experimental.symbolic_shapes.free_symbols(leaf)
        missing = needed - {_symbol(value_of(node)) for node in partition.inputs}
        extra = {sources[symbol] for symbol in missing if symbol in sources} - inside
        first = min(position[node] for node in partition.nodes)
        extra = {node for node in extra if position[node] < first}
        if extra:
            partition.inputs = sorted({*partition.inputs, *extra}, key=position.__getitem__)
            changed = True
    return changed


def pass_fuse_partitions(ctx: OptimizerContext) -> bool:
    """Create a separate graph module for each cluster."""
    for partition in ctx.partitions:
        if partition.placement is Placement.CLUSTER:
            partition.module = _cluster_module(ctx.graph_module, partition)
    return True


def connect_partitions(ctx: OptimizerContext) -> None:
    """Set the inputs and outputs of each partition, without duplicates."""
    position = {node: index for index, node in enumerate(ctx.graph_module.graph.nodes)}
    returned = {node for node in graph_outputs(ctx.graph_module) if isinstance(node, Node)}
    for partition in ctx.partitions:
        inside = set(partition.nodes)
        needed = {source for node in partition.nodes for source in node.all_input_nodes} - inside
        if partition.placement is Placement.CLUSTER:
            needed = {node for node in needed if not _is_copied_constant(node)}
        partition.inputs = sorted(needed, key=position.__getitem__)
        partition.outputs = [
            node
            for node in partition.nodes
            if node in returned or any(user not in inside for user in node.users)
        ]


def dissolve_clusters(ctx: OptimizerContext) -> None:
    """Make each node a separate partition. This is used if the clusters of a graph do not have recipes."""
    nodes = [node for partition in ctx.partitions for node in partition.nodes]
    if not ctx.partitions:
        kinds = ("placeholder", "get_attr", "output")
        nodes = [node for node in ctx.graph_module.graph.nodes if node.op not in kinds]
    for node in nodes:
        node.meta["placement"] = Placement.CALL
    ctx.partitions = [Partition(f"{ctx.graph_name}_{i}", [n], Placement.CALL) for i, n in enumerate(nodes)]
    connect_partitions(ctx)


def _symbol(value: Any) -> Any:
    if isinstance(value, torch.SymInt) and value.node.expr.is_symbol:
        return value.node.expr
    return None


def _is_copied_constant(node: Node) -> bool:
    """Return whether a node is a constant that each cluster copies, instead of taking it as an input."""
    return node.op == "get_attr" and node.meta.get("placement") is Placement.CLUSTER


def _cluster_module(root: GraphModule, partition: Partition) -> GraphModule:
    graph = Graph()
    copies: dict[Node, Node] = {}
    for source in partition.inputs:
        copies[source] = graph.placeholder(source.name)
        copies[source].meta = dict(source.meta)

    def copy_of(node: Node) -> Node:
        if node not in copies:
            copies[node] = graph.node_copy(node)
        return copies[node]

    for node in partition.nodes:
        copies[node] = graph.node_copy(node, copy_of)
    graph.output(tuple(copies[node] for node in partition.outputs))
    graph.eliminate_dead_code()
    module = GraphModule(root, graph, class_name=partition.name)
    module.meta.update(root.meta)
    return module
