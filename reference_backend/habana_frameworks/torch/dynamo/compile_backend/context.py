"""`OptimizerContext`, the state that passes read and change, and helper functions for graphs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree


class OptimizationPassPlacement(enum.Enum):
    """The stage at which a pass runs."""

    PRE_PLACEMENT = 1
    PRE_PARTITIONER = 2
    PARTITIONER = 3
    POST_PARTITIONER = 4


class Placement(enum.Enum):
    """The way in which a node runs: in a recipe, or separately."""

    CLUSTER = "hpu_cluster"  # in a recipe
    CALL = "hpu_call"  # separately: random, not a torch operator, or on the CPU
    EAGER = "eager"  # separately, because a recipe cannot contain it


@dataclass(eq=False)
class Partition:
    """Nodes that run as a unit: the nodes of a recipe, or a single node that runs separately.

    Attributes:
        name: unique name in the graph.
        nodes: the nodes, in order.
        placement: placement of all nodes.
        module: the nodes as a separate graph; for recipes, after pass_fuse_partitions.
        inputs: nodes outside the partition that `module` takes, in order.
        outputs: nodes of the partition that are used outside, in order.
        recipe: boxed callable, after pass_compile_clusters.
        output_strides: strides of `outputs`; None if they are as traced.
    """

    name: str
    nodes: list[Node]
    placement: Placement
    module: GraphModule | None = None
    inputs: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)
    recipe: Callable[[list[Any]], Sequence[Any]] | None = None
    output_strides: list[Any] | None = None


@dataclass(eq=False)
class OptimizerContext:
    """One graph while the passes transform it.

    Attributes:
        graph_module: the graph, which passes change.
        graph_name: name of the graph in logs and metrics.
        example_inputs: fake inputs.
        fake_mode: fake mode of the inputs.
        is_training: True for forward and backward graphs, False for inference graphs.
        is_backward: True for backward graphs.
        is_dynamic: at least one size is symbolic.
        fused: recipes are fused, not interpreted.
        use_recipes: clusters get recipes; if False, their operators run one by one.
        frozen: parameters are constants of the graph.
        fixed_stride_outputs: positions of the outputs whose strides must be as traced.
        stage: the current stage.
        partitions: the proposed partitions, in execution order.
        output_strides: strides of the graph's outputs; None for an output whose strides are as traced.
        executable: the resulting callable.
    """

    graph_module: GraphModule
    graph_name: str
    example_inputs: list[Any]
    fake_mode: Any = None
    is_training: bool = False
    is_backward: bool = False
    is_dynamic: bool = False
    fused: bool = False
    use_recipes: bool = True
    frozen: bool = False
    fixed_stride_outputs: frozenset[int] = frozenset()
    stage: OptimizationPassPlacement | None = None
    partitions: list[Partition] = field(default_factory=list)
    output_strides: list[Any] | None = None
    executable: Any = None


def output_node(graph_module: GraphModule) -> Node:
    """Return the node that returns the results of the graph."""
    nodes: Iterator[Node] = reversed(graph_module.graph.nodes)
    return next(node for node in nodes if node.op == "output")


def graph_outputs(graph_module: GraphModule) -> list[Any]:
    """Return the results of the graph: nodes and constants."""
    return list(output_node(graph_module).args[0])  # type: ignore[arg-type]


def value_of(node: Node) -> Any:
    """Return the fake value of a node, or None if it is unknown."""
    return node.meta.get("val")


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a fake value, which may be a list."""
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def leaves_with_symbols(value: Any) -> Iterator[Any]:
    """Yield the parts of a fake value that can contain symbols: tensors and symbolic numbers."""
    kinds = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, kinds))


def is_mutating(node: Node) -> bool:
    """Return whether a node writes to one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def has_same_metadata(first: Node, second: Node) -> bool:
    """Return whether two tensors have the same dtype, shape, strides and device for all symbolic sizes."""
    a, b = value_of(first), value_of(second)
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return False
    if a.dtype != b.dtype or a.device != b.device or a.layout != b.layout or a.dim() != b.dim():
        return False
    if a.is_conj() != b.is_conj() or a.is_neg() != b.is_neg() or a.layout != torch.strided:
        return False
    pairs = zip((*a.shape, *a.stride()), (*b.shape, *b.stride()), strict=True)
    return all(_surely_equal(x, y) for x, y in pairs)


def has_same_storage_offset(first: Node, second: Node) -> bool:
    """Return whether two tensors have the same storage offset for all symbolic sizes."""
    return _surely_equal(value_of(first).storage_offset(), value_of(second).storage_offset())


def _surely_equal(x: Any, y: Any) -> bool:
    if isinstance(x, int) and isinstance(y, int):
        return x == y
    # Compare the expressions, because comparing the symbols with == would add a guard to the graph.
    first, second = getattr(x, "node", None), getattr(y, "node", None)
    return first is not None and second is not None and first.expr == second.expr


def storage_of(node: Node) -> int | None:
    """Return an identifier of the memory of a fake tensor, or None for other values."""
    value = value_of(node)
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        storage: int = value.untyped_storage()._cdata
        return storage
    return None
