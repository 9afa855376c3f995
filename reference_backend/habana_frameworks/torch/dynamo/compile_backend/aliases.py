"""Find the nodes of a graph that may share memory."""

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
from .recipe_support import is_python_arithmetic

aten = torch.ops.aten

#: Operators whose result shares memory with their input although the schema does not declare it.
_UNDECLARED_ALIASES = frozenset({aten._unsafe_view.default})
#: Operators that use the storage of a tensor rather than its elements.
_ADDRESSING = frozenset({aten.as_strided, aten.as_strided_copy, aten.as_strided_scatter, aten.as_strided_})


class AliasSets:
    """Sets of nodes that may share memory: a node, its views, their views, and results of in-place writes.

    Fake values do not show all shared memory. A pass that lets one node reuse the memory of another does not
    change the fake values of the views; such a pass must call `record_shared_memory`. Fake values also do not
    show that an operator may return its input.

    Args:
        graph: the graph. Nodes that are added later are not included.
    """

    def __init__(self, graph: Graph) -> None:
        self._sets: dict[Node, set[Node]] = {node: {node} for node in graph.nodes if node.op != "output"}
        first: dict[Any, Node] = {}
        for node in self._sets:
            storage = storage_of(node)
            if node.op == "get_attr":
                storage = _storage_of_constant(node) or storage
            if storage is not None:
                self.record_shared_memory(node, first.setdefault(storage, node))
            for source in self._aliased_arguments(node):
                self.record_shared_memory(node, source)

    def possible_aliases_of(self, node: Node) -> set[Node]:
        """Return the nodes that may share memory with a node, including the node."""
        return self._sets[node]

    def may_share_memory(self, first: Node, second: Node) -> bool:
        """Return whether two nodes may share memory."""
        return self._sets[first] is self._sets[second]

    def record_shared_memory(self, first: Node, second: Node) -> None:
        """Record that two nodes share memory."""
        small, large = sorted((self._sets[first], self._sets[second]), key=len)
        if small is large:
            return
        large |= small
        for node in small:
            self._sets[node] = large

    def remove_node(self, node: Node) -> None:
        """Remove a node that is no longer in the graph."""
        self._sets.pop(node).discard(node)

    def is_storage_addressed(self, node: Node) -> bool:
        """Return whether an operator such as ``as_strided`` uses the node's storage. Passes keep the node."""
        users = (user for alias in self.possible_aliases_of(node) for user in alias.users)
        return any(getattr(user.target, "overloadpacket", None) in _ADDRESSING for user in users)

    def _aliased_arguments(self, node: Node) -> Iterator[Node]:
        if node.op != "call_function":
            return
        if node.target is operator.getitem:
            source = node.args[0]
            # The tensors of a list share memory only if they are views of an argument. In this case, the list
            # already shares memory with the argument.
            if isinstance(source, Node) and len(self._sets[source]) > 1:
                yield source
            return
        yield from arguments_possibly_aliased_by_result(node)


def arguments_possibly_aliased_by_result(node: Node) -> list[Node]:
    """Return the arguments of a call with which its result may share memory."""
    target = node.target
    if not isinstance(target, OpOverload):
        return [] if is_python_arithmetic(target) else node.all_input_nodes
    if target in _UNDECLARED_ALIASES:
        return node.all_input_nodes
    if may_return_argument_without_alias_annotation(target):
        return node.all_input_nodes
    if not any(result.alias_info for result in target._schema.returns):
        return []
    return _argument_nodes(node, lambda argument: argument.alias_info is not None)


def is_view(node: Node) -> bool:
    """Return whether a node is a single tensor that may share memory with an argument, and writes nothing."""
    if node.op != "call_function" or is_mutating(node) or not isinstance(value_of(node), torch.Tensor):
        return False
    if not isinstance(node.target, OpOverload):
        return False
    return node.target in _UNDECLARED_ALIASES or any(
        result.alias_info for result in node.target._schema.returns
    )


def written_arguments(node: Node) -> list[Node]:
    """Return the arguments that a node writes to."""
    if not is_mutating(node):
        return []
    return _argument_nodes(
        node, lambda argument: argument.alias_info is not None and argument.alias_info.is_write
    )


@functools.cache
def may_return_argument_without_alias_annotation(target: OpOverload) -> bool:
    """Return whether an operator may return an argument although its schema does not declare it.

    This applies to composite operators such as dropout, references such as ``prims::device_put``, and
    ``_c10d_functional::wait_tensor``. It does not apply to ATen operators with their own kernels.
    """
    if target.namespace != "aten":
        return True
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(has_kernel(target.name(), "CompositeImplicitAutograd"))


def _argument_nodes(node: Node, accepts: Any) -> list[Node]:
    """Return the nodes that are passed for the schema arguments for which `accepts` returns True."""
    nodes: list[Node] = []
    for position, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if not accepts(argument):
            continue
        value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
        leaves = value if isinstance(value, list | tuple) else [value]
        nodes += [leaf for leaf in leaves if isinstance(leaf, Node)]
    return nodes


def _storage_of_constant(node: Node) -> int | None:
    # Constants are compared by storage and not by attribute name: two names may refer to the same tensor.
    root = node.graph.owning_module
    value = None if root is None else attrgetter(str(node.target))(root)
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        storage: int = value.untyped_storage()._cdata
        return storage
    return None


def module_writes_to_inputs(module: GraphModule) -> bool:
    """Return whether a node of the graph writes to memory of the graph's inputs or attributes."""
    aliases = AliasSets(module.graph)
    written = {argument for node in module.graph.nodes for argument in written_arguments(node)}
    return any(
        alias.op in ("placeholder", "get_attr")
        for node in written
        for alias in aliases.possible_aliases_of(node)
    )
