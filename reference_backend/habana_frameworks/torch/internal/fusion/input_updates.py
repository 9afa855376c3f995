"""Make the values that a graph stores to its inputs independent of the order of the stores.

A graph whose operators are functional writes to its inputs at its end. The stored value may still be the
memory of another input that the graph overwrites: ``x.copy_(y); y.copy_(z)``. A clone is no remedy, because
Inductor removes clones of such inputs (docs/torch-bugs.md#exchanged-inputs).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from .description import NotFusable

aten = torch.ops.aten

# The dtypes whose values two negations do not change.
_NEGATABLE = frozenset(
    {
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
        *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
    }
)
_COPIES = (aten.clone.default, aten._to_copy.default, aten.alias.default, aten.lift_fresh_copy.default)
_VIEWS = (
    *(aten.permute.default, aten.t.default, aten.transpose.int, aten.expand.default, aten.slice.Tensor),
    *(aten.reshape.default, aten.view.default, aten._unsafe_view.default, aten.select.int),
    *(aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.as_strided.default),
    *(aten.repeat.default, aten.cat.default, aten.constant_pad_nd.default, aten.index.Tensor),
)


def independent_of_order(
    stores: Sequence[tuple[Node, Node]], add: Callable[..., Node]
) -> list[tuple[Node, Node]]:
    """Return the stores (target, value) with values that no store changes.

    Args:
        stores: the stores at the end of a functional graph; each target is an input or a view of an input.
        add: adds an operator with its arguments to the graph, before the first store.

    Raises:
        NotFusable: a value has a dtype without negation.
    """
    overwritten = {_origin(target)[0] for target, _ in stores}
    independent = []
    for target, value in stores:
        origin, is_elementwise = _origin(value)
        is_safe = origin not in overwritten or value is target or (origin is target and is_elementwise)
        independent.append((target, value if is_safe else _negated_twice(value, add)))
    return independent


def _negated_twice(value: Node, add: Callable[..., Node]) -> Node:
    """Return an equal value that Inductor must compute, which it does before it overwrites an operand."""
    dtype = value.meta["val"].dtype
    if dtype not in _NEGATABLE:
        raise NotFusable(f"an input of dtype {dtype} is copied and then overwritten")
    negation: Any = aten.logical_not.default if dtype == torch.bool else aten.neg.default
    return add(negation, add(negation, value))


def _origin(value: Node) -> tuple[Node, bool]:
    """Return the node that a value equals if the operators between them change nothing, and whether all of
    these operators are elementwise. Inductor removes operators that change nothing: views, copies, and
    pointwise operators with one tensor, such as an addition of 0.
    """
    is_elementwise = True
    while value.op == "call_function" and value.target not in (operator.getitem, aten.full.default):
        operands = [node for node in value.all_input_nodes if node.target is not aten.full.default]
        if value.target is aten.copy.default:  # its result is its second operand
            operands = operands[-1:]
        is_pointwise = value.target in (*_COPIES, aten.copy.default) or torch.Tag.pointwise in getattr(
            value.target, "tags", ()
        )
        if len(operands) != 1 or not (is_pointwise or value.target in _VIEWS):
            break
        is_elementwise &= is_pointwise
        value = operands[0]
    return value, is_elementwise
