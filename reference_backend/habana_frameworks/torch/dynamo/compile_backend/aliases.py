"""The nodes of a graph that may share memory."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from .context import is_mutating, storage_of, value_of
from .recipe_support import is_arithmetic

aten = torch.ops.aten

#: Operators whose result shares memory with their input although their schema does not say so.
_SILENT = frozenset({aten._unsafe_view.default})
#: Operators that address the storage of a tensor rather than its elements.
_ADDRESSING = frozenset({aten.as_strided, aten.as_strided_copy, aten.as_strided_scatter, aten.as_strided_})


class Aliases:
    """Sets of nodes that may share memory: a node, its views, their views, and what is written through them.

    Fake values alone do not tell. A pass that lets one node take the memory of another leaves the fake values
    of its views as they are, and a fake tensor knows nothing of an operator that may return its input.
    A pass that makes nodes share memory calls `join`.

    Args:
        graph: the nodes; those that are added later are not known.
    """

    def __init__(self, graph: Graph) -> None:
        self._sets: dict[Node, set[Node]] = {node: {node} for node in graph.nodes if node.op != "output"}
        first: dict[Any, Node] = {}
        for node in self._sets:
            storage = storage_of(node)
            if node.op == "get_attr":
                storage = _storage_of_constant(node) or storage
            if storage is not None:
                self.join(node, first.setdefault(storage, node))
            for source in self._sources(node):
                self.join(node, source)

    def of(self, node: Node) -> set[Node]:
        """Nodes that may share memory with a node, which is one of them."""
        return self._sets[node]

    def share(self, first: Node, second: Node) -> bool:
        """Say whether two nodes may share memory."""
        return self._sets[first] is self._sets[second]

    def join(self, first: Node, second: Node) -> None:
        """Note that two nodes share memory."""
        small, large = sorted((self._sets[first], self._sets[second]), key=len)
        if small is large:
            return
        large |= small
        for node in small:
            self._sets[node] = large

    def remove(self, node: Node) -> None:
        """Forget a node that the graph no longer has."""
        self._sets.pop(node).discard(node)

    def are_addressed(self, node: Node) -> bool:
        """Say whether the storage behind a node is addressed, so that another one cannot take its place."""
        users = (user for alias in self.of(node) for user in alias.users)
        return any(getattr(user.target, "overloadpacket", None) in _ADDRESSING for user in users)

    def _sources(self, node: Node) -> Iterator[Node]:
        if node.op != "call_function":
            return
        if node.target is operator.getitem:
            source = node.args[0]
            # The tensors of a list are apart unless they are views of what the list was made from.
            if isinstance(source, Node) and len(self._sets[source]) > 1:
                yield source
            return
        yield from possible_bases(node)


def possible_bases(node: Node) -> list[Node]:
    """Arguments of a call with which its result may share memory."""
    target = node.target
    if not isinstance(target, OpOverload):
        return [] if is_arithmetic(target) else node.all_input_nodes
    if target in _SILENT:
        return node.all_input_nodes
    if promises_nothing(target):
        return node.all_input_nodes
    if not any(result.alias_info for result in target._schema.returns):
        return []
    return _nodes_of(node, lambda argument: argument.alias_info is not None)


def is_view(node: Node) -> bool:
    """Say whether a node is one tensor that may share memory with an argument, and writes nothing."""
    if node.op != "call_function" or is_mutating(node) or not isinstance(value_of(node), torch.Tensor):
        return False
    if not isinstance(node.target, OpOverload):
        return False
    return node.target in _SILENT or any(result.alias_info for result in node.target._schema.returns)


def written_by(node: Node) -> list[Node]:
    """Arguments that a node writes to."""
    if not is_mutating(node):
        return []
    return _nodes_of(node, lambda argument: argument.alias_info is not None and argument.alias_info.is_write)


@functools.cache
def promises_nothing(target: OpOverload) -> bool:
    """Say whether an operator may return an argument without a word of it in its schema.

    A composite operator such as dropout may, a reference such as ``prims::device_put``, and
    ``_c10d_functional::wait_tensor``; operators of ATen with kernels of their own may not.
    """
    if target.namespace != "aten":
        return True
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(has_kernel(target.name(), "CompositeImplicitAutograd"))


def _nodes_of(node: Node, accepts: Any) -> list[Node]:
    """Nodes in the arguments that `accepts` takes."""
    found: list[Node] = []
    for position, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if not accepts(argument):
            continue
        given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
        leaves = given if isinstance(given, list | tuple) else [given]
        found += [leaf for leaf in leaves if isinstance(leaf, Node)]
    return found


def _storage_of_constant(node: Node) -> int | None:
    # Two names may stand for one tensor.
    root = node.graph.owning_module
    value = None if root is None else attrgetter(str(node.target))(root)
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        return value.untyped_storage()._cdata
    return None


def writes_to_inputs(module: GraphModule) -> bool:
    """Say whether a node of the graph writes into memory of its inputs or attributes."""
    aliases = Aliases(module.graph)
    written = {argument for node in module.graph.nodes for argument in written_by(node)}
    return any(alias.op in ("placeholder", "get_attr") for node in written for alias in aliases.of(node))
