"""Public import path of `compile_backend.context`."""

from __future__ import annotations

from ..context import (
    OptimizationPassPlacement,
    OptimizerContext,
    Partition,
    Placement,
    graph_outputs,
    has_same_metadata,
    is_mutating,
    leaves_with_symbols,
    output_node,
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
    "has_same_metadata",
    "is_mutating",
    "leaves_with_symbols",
    "output_node",
    "storage_of",
    "tensors_in",
    "value_of",
]
