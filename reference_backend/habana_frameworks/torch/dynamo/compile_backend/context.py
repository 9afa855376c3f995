"""What a pass gets, and small helpers that passes share."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree


class OptimizationPassPlacement(enum.Enum):
    """When a pass runs."""

    PRE_PLACEMENT = 1
    PRE_PARTITIONER = 2
    PARTITIONER = 3
    POST_PARTITIONER = 4


class Placement(enum.Enum):
    """Where a node runs."""

    CLUSTER = "hpu_cluster"  # in a recipe
    CALL = "hpu_call"  # by itself, as it must: it draws random numbers, is not torch's, or is about the CPU
    EAGER = "eager"  # by itself, since no recipe can have it


@dataclass(eq=False)
class Partition:
    """Nodes that run as one: those of a recipe, or one that runs by itself.

    Attributes:
        name: unique in its graph.
        nodes: in order.
        placement: of all of them.
        module: the nodes as a graph of their own; for recipes, after pass_fuse_partitions.
        inputs: nodes outside that `module` takes, in order.
        outputs: nodes of it that something outside uses, in order.
        recipe: boxed callable, after pass_compile_clusters.
        output_strides: strides of `outputs` where they are not as traced.
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
        is_dynamic: some size is symbolic.
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
    """The node that returns."""
    return next(node for node in reversed(graph_module.graph.nodes) if node.op == "output")


def graph_outputs(graph_module: GraphModule) -> list[Any]:
    """What the graph returns: nodes and constants."""
    return list(output_node(graph_module).args[0])  # type: ignore[arg-type]


def value_of(node: Node) -> Any:
    """The fake value of a node, None where it is not known."""
    return node.meta.get("val")


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a fake value, which may be a list."""
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def shaped_leaves(value: Any) -> Iterator[Any]:
    """What in a fake value can hold a symbol: tensors and symbolic numbers."""
    kinds = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, kinds))


def is_mutating(node: Node) -> bool:
    """Whether a node writes to one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def same_metadata(first: Node, second: Node) -> bool:
    """Whether two nodes are tensors of one dtype, shape, layout in memory and device, for all sizes."""
    a, b = value_of(first), value_of(second)
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return False
    if a.dtype != b.dtype or a.device != b.device or a.layout != b.layout or a.dim() != b.dim():
        return False
    if a.is_conj() != b.is_conj() or a.is_neg() != b.is_neg() or a.layout != torch.strided:
        return False
    pairs = zip((*a.shape, *a.stride()), (*b.shape, *b.stride()), strict=True)
    return all(_surely_equal(x, y) for x, y in pairs)


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
