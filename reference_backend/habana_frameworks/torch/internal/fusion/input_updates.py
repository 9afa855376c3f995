"""Keep Inductor from reading an input after the graph has overwritten it.

A graph whose operators are functional writes to its inputs at its end. A value that it stores or returns may
still be the memory of an input: ``before = x.clone(); x.add_(1); y.copy_(before)``. Inductor removes the
clone although the input changes first (docs/torch-bugs.md#exchanged-inputs).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten

# For dtypes without a negation: a dtype to which they convert and back without loss (uint64 wraps in int64).
# For 8-bit floats it is float32.
_WITH_NEGATION = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}
_CONVERSION = torch.ops.prims.convert_element_type.default
_COPIES = (aten.clone.default, aten._to_copy.default, aten.alias.default, _CONVERSION)

Add = Callable[..., Node]


def independent_of_order(stores: Sequence[tuple[Node, Node]], add: Add) -> list[tuple[Node, Node]]:
    """Return stores (target, value) whose values do not share memory with an input that a store overwrites.

    Args:
        stores: the stores at the end of a functional graph; each target is an input or a view of an input.
        add: adds an operator with its arguments to the graph, before the first store.
    """
    overwritten = overwritten_inputs(target for target, _ in stores)
    independent = []
    for target, value in stores:
        origin, is_elementwise = _origin(value)
        # A value is safe if its memory is not overwritten, or if an input is written to itself elementwise.
        is_safe = origin not in overwritten or value is target or (origin is target and is_elementwise)
        independent.append((target, value if is_safe else _computed(value, add)))
    return independent


def independent_value(value: Node, overwritten: Collection[Node], add: Add) -> Node:
    """Return a node with the same value that shares no memory with the overwritten inputs."""
    return _computed(value, add) if _origin(value)[0] in overwritten else value


def overwritten_inputs(targets: Any) -> set[Node]:
    """Return the inputs that stores to these targets overwrite."""
    return {_origin(target)[0] for target in targets}


def _computed(value: Node, add: Add) -> Node:
    """Return an equal node that Inductor must compute: the value, negated twice. Inductor computes it before
    it overwrites an operand, because its last operator is pointwise. A 16-bit signalling NaN becomes quiet.
    """
    dtype = value.meta["val"].dtype
    is_small_float = dtype.is_floating_point and dtype.itemsize == 1
    wide = torch.float32 if is_small_float else _WITH_NEGATION.get(dtype, dtype)
    negation: Any = aten.logical_not.default if dtype == torch.bool else aten.neg.default
    node = value if wide == dtype else add(_CONVERSION, value, dtype=wide)
    node = add(negation, add(negation, node))
    return node if wide == dtype else add(_CONVERSION, node, dtype=dtype)


def _origin(value: Node) -> tuple[Node, bool]:
    """Follow a value back through operators with one tensor operand (of ``copy``, the second). Return the
    node before them, and whether all of them are elementwise.

    Inductor may reduce each of them to its operand: a view, a copy, an addition of 0, a rotation by 0
    degrees.
    """
    is_elementwise = True
    while value.op == "call_function" and value.target is not aten.full.default:
        operands = [node for node in value.all_input_nodes if _is_operand(node)]
        if value.target is aten.copy.default:  # its result is its second operand
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


def _is_operand(node: Node) -> bool:
    """Return whether a node is a tensor, or a list of tensors, and not the result of ``full``."""
    if node.target is aten.full.default:
        return False
    value = node.meta.get("val")
    return isinstance(value, (torch.Tensor, list, tuple)) or node.target is operator.getitem
