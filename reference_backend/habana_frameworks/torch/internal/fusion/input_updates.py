"""Keep Inductor from reading an input after the graph has overwritten it.

A functional graph writes to its inputs only at its end. Example: ``before = x.clone(); x.add_(1);
y.copy_(before)``. Inductor removes the clone, so that ``y`` is copied from the memory of ``x``, although the
graph overwrites ``x`` before the copy (docs/torch-bugs.md#exchanged-inputs).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten

# For each dtype without a negation: a dtype to which values convert, and back, without loss (uint64 wraps
# in int64). `_add_copy_by_double_negation` handles 8-bit floats, which convert to float32.
_WITH_NEGATION = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}
_CONVERSION = torch.ops.prims.convert_element_type.default
_COPIES = (aten.clone.default, aten._to_copy.default, aten.alias.default, _CONVERSION)

Add = Callable[..., Node]


def copy_values_in_overwritten_inputs(
    stores: Sequence[tuple[Node, Node]], add: Add
) -> list[tuple[Node, Node]]:
    """Return the stores (target, value), with a computed copy for each value in overwritten input memory.

    Args:
        stores: the stores at the end of a functional graph; each target is an input or a view of an input.
        add: adds an operator with its arguments to the graph, before the first store.
    """
    overwritten = overwritten_inputs(target for target, _ in stores)
    independent = []
    for target, value in stores:
        origin, is_elementwise = _skip_single_operand_operators(value)
        # A store is safe if its value does not share memory with an overwritten input, or if it writes an
        # elementwise function of an input to the same input.
        is_safe = origin not in overwritten or value is target or (origin is target and is_elementwise)
        independent.append((target, value if is_safe else _add_copy_by_double_negation(value, add)))
    return independent


def copy_if_input_is_overwritten(value: Node, overwritten: Collection[Node], add: Add) -> Node:
    """Return the value, or a computed copy if the value shares memory with an overwritten input."""
    return (
        _add_copy_by_double_negation(value, add)
        if _skip_single_operand_operators(value)[0] in overwritten
        else value
    )


def overwritten_inputs(targets: Any) -> set[Node]:
    """Return the inputs whose memory is overwritten by stores to the targets (inputs and their views)."""
    return {_skip_single_operand_operators(target)[0] for target in targets}


def _add_copy_by_double_negation(value: Node, add: Add) -> Node:
    """Return a copy of the value that Inductor cannot remove: the value, negated twice.

    Inductor computes a pointwise operator such as negation before it overwrites the operand. A 16-bit
    signalling NaN becomes quiet.
    """
    dtype = value.meta["val"].dtype
    is_small_float = dtype.is_floating_point and dtype.itemsize == 1
    wide = torch.float32 if is_small_float else _WITH_NEGATION.get(dtype, dtype)
    negation: Any = aten.logical_not.default if dtype == torch.bool else aten.neg.default
    node = value if wide == dtype else add(_CONVERSION, value, dtype=wide)
    node = add(negation, add(negation, node))
    return node if wide == dtype else add(_CONVERSION, node, dtype=dtype)


def _skip_single_operand_operators(value: Node) -> tuple[Node, bool]:
    """Follow a value back through operators with one tensor operand, and return the node before them.

    Also return whether all these operators are elementwise. Inductor may replace each of these operators by
    the operand, for example a view, a copy, an addition of 0 or a rotation by 0 degrees. The operand of
    ``copy`` is its second argument.
    """
    is_elementwise = True
    while value.op == "call_function" and value.target is not aten.full.default:
        operands = [node for node in value.all_input_nodes if _is_tensor_operand(node)]
        if value.target is aten.copy.default:  # the result of copy has the value of the second operand
            operands = operands[-1:]
        if len(operands) != 1:
            break
        is_elementwise &= (
            value.target in _COPIES
            or value.target is aten.copy.default
            or torch.Tag.pointwise in getattr(value.target, "tags", ())
        )
        value = operands[0]
    return value, is_elementwise


def _is_tensor_operand(node: Node) -> bool:
    """Return whether a node is a tensor, or a list of tensors, and not the result of ``full``."""
    if node.target is aten.full.default:
        return False
    value = node.meta.get("val")
    return isinstance(value, (torch.Tensor, list, tuple)) or node.target is operator.getitem
