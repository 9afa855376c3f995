"""The state that passes read and change, and small helpers that they share."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree


class OptimizationPassPlacement(enum.Enum):
    """Stage at which a pass runs."""

    PRE_PLACEMENT = 1
    PRE_PARTITIONER = 2
    PARTITIONER = 3
    POST_PARTITIONER = 4


class Placement(enum.Enum):
    """Place at which a node runs."""

    CLUSTER = "hpu_cluster"  # in a recipe
    CALL = "hpu_call"  # by itself: it draws random numbers, is no operator of torch, or is for the CPU
    EAGER = "eager"  # by itself, since no recipe can contain it


@dataclass(eq=False)
class Partition:
    """Nodes that run as one: those of a recipe, or a single node that runs by itself.

    Attributes:
        name: unique in its graph.
        nodes: in order.
        placement: of all of them.
        module: the nodes as a graph of their own; for recipes, after pass_fuse_partitions.
        inputs: nodes outside that `module` takes, in order.
        outputs: its nodes that are used outside, in order.
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
    """One graph on its way through the passes.

    Attributes:
        graph_module: the graph, which passes change.
        graph_name: for logs and metrics.
        example_inputs: fake inputs.
        fake_mode: of the inputs.
        is_training: forward or backward graph, rather than an inference graph.
        is_backward: backward graph.
        is_dynamic: at least one size is symbolic.
        fused: recipes are to be fused.
        use_recipes: clusters get recipes; otherwise their operators run one by one.
        frozen: parameters are constants of the graph.
        visible: positions of the outputs whose strides must be as traced.
        stage: the running stage.
        partitions: in the order in which they run, once they are proposed.
        output_strides: strides of the graph's outputs, None for one that is as traced.
        executable: the result.
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
    visible: frozenset[int] = frozenset()
    stage: OptimizationPassPlacement | None = None
    partitions: list[Partition] = field(default_factory=list)
    output_strides: list[Any] | None = None
    executable: Any = None


def output_node(graph_module: GraphModule) -> Node:
    """The node that returns the results of the graph."""
    return next(node for node in reversed(graph_module.graph.nodes) if node.op == "output")


def graph_outputs(graph_module: GraphModule) -> list[Any]:
    """Results of the graph: nodes and constants."""
    return list(output_node(graph_module).args[0])  # type: ignore[arg-type]


def value_of(node: Node) -> Any:
    """Fake value of a node, or None if it is not known."""
    return node.meta.get("val")


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Tensors of a fake value, which may be a list."""
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def shaped_leaves(value: Any) -> Iterator[Any]:
    """Parts of a fake value that can contain a symbol: tensors and symbolic numbers."""
    kinds = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, kinds))


def is_mutating(node: Node) -> bool:
    """Say whether a node writes to one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def same_metadata(first: Node, second: Node) -> bool:
    """Say whether two nodes are tensors of one dtype, shape, stride and device, for all symbolic sizes."""
    a, b = value_of(first), value_of(second)
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return False
    if a.dtype != b.dtype or a.device != b.device or a.layout != b.layout or a.dim() != b.dim():
        return False
    if a.is_conj() != b.is_conj() or a.is_neg() != b.is_neg() or a.layout != torch.strided:
        return False
    pairs = zip((*a.shape, *a.stride()), (*b.shape, *b.stride()), strict=True)
    return all(_surely_equal(x, y) for x, y in pairs)


def same_offset(first: Node, second: Node) -> bool:
    """Say whether two tensors begin at the same place of their memory, for all symbolic sizes."""
    return _surely_equal(value_of(first).storage_offset(), value_of(second).storage_offset())


def _surely_equal(x: Any, y: Any) -> bool:
    if isinstance(x, int) and isinstance(y, int):
        return x == y
    # Comparing symbols would add a guard; equal expressions need none.
    first, second = getattr(x, "node", None), getattr(y, "node", None)
    return first is not None and second is not None and first.expr == second.expr


def storage_of(node: Node) -> int | None:
    """Identity of the memory behind a fake tensor; None for anything else."""
    value = value_of(node)
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        return value.untyped_storage()._cdata
    return None
