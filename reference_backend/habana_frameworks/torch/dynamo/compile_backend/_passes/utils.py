"""Public import path of `compile_backend.context`."""

from __future__ import annotations

from ..context import (
    OptimizationPassPlacement,
    OptimizerContext,
    Partition,
    Placement,
    graph_outputs,
    is_mutating,
    output_node,
    same_metadata,
    shaped_leaves,
    storage_of,
    tensors_in,
    value_of,
)

__all__ = [
    "OptimizationPassPlacement",
    "OptimizerContext",
    "Partition",
    "Placement",
    "graph_outputs",
    "is_mutating",
    "output_node",
    "same_metadata",
    "shaped_leaves",
    "storage_of",
    "tensors_in",
    "value_of",
]
