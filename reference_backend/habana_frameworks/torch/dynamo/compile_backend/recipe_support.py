"""Decisions, operator by operator, on what can be part of a recipe."""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

from habana_frameworks.torch.dynamo.debug_utils.logger import Logger

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses import FakeTensorMode
from torch.fx import Node
from torch.fx.node import _get_qualified_name, map_arg

from . import inductor
from .context import Placement, shaped_leaves, tensors_in, value_of

logger = Logger("PT_COMPILE")

#: Operators that run by themselves although a recipe could contain them: ``aten::add.Tensor`` or
#: ``aten.add.Tensor``; ``aten::add`` or ``add`` for all overloads.
hpu_fallback_op_list: list[str] = []

_NAMESPACES = frozenset({"aten", "prims"})

#: Tags of operators that may read values, or hand them to the host, and whose results may depend on them in
#: shape; whether a call does is seen from its arguments.
_MAY_DEPEND_ON_DATA = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})

#: Operators of these tags that a capture takes if the call does not depend on data; others it refuses.
_CAPTURED_BY_CALL = frozenset({torch.ops.aten.index.Tensor})


def requires_fallback(node: Node) -> bool:
    """Say whether a node must run by itself, between recipes, and log the answer in one line.

    Operators of `hpu_fallback_op_list` must, calls whose result's shape depends on data, and operators on
    tensors that are not strided.
    """
    reason = fallback_reason(node)
    logger.debug("Node: %s requires fallback: %s%s", node.name, bool(reason), reason and f", {reason}")
    return bool(reason)


def fallback_reason(node: Node) -> str:
    """Reason for which a node requires fallback; empty if it does not."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, OpOverload):
        return ""
    if _names(target) & set(hpu_fallback_op_list):
        return "it is in hpu_fallback_op_list"
    values = [value_of(node), *(value_of(source) for source in node.all_input_nodes)]
    if any(tensor.layout != torch.strided for value in values for tensor in tensors_in(value)):
        return "not all of its tensors are strided"
    if has_unbacked_symbols(value_of(node)) or _depends_on_data(node):
        return "its shape depends on data"
    return ""


def _depends_on_data(node: Node) -> bool:
    """Say whether this call of an operator needs values to know its result, or the shape of its result.

    An operator with such a tag is run on fake tensors with the shapes of the arguments and nothing else:
    ``x[i]`` reads values for its shape if ``i`` is a mask, and does not if it holds integers.
    """
    target = node.target
    if not isinstance(target, OpOverload) or not _MAY_DEPEND_ON_DATA & set(target.tags):
        return False
    try:
        # A mode of its own: that of the graph may remember the size that a result was checked to have.
        with FakeTensorMode():
            args, kwargs = map_arg((node.args, node.kwargs), lambda source: _of_its_shape(value_of(source)))
            target(*args, **kwargs)
    except Exception:  # the error that says so, or an operator that has no shape rule
        return True
    return False


def _of_its_shape(value: Any) -> Any:
    """A tensor, made in the current mode, of the shape of a fake value; numbers for symbols."""
    if isinstance(value, torch.Tensor):
        return torch.empty([_number(size) for size in value.shape], dtype=value.dtype, device=value.device)
    return _number(value)


def _number(value: Any) -> Any:
    """The example that a symbolic number stands for."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value
    example = value.node.hint
    if example is None:
        raise ValueError(f"{value} has no example, since it depends on data")
    return example


def place(node: Node, fused: bool) -> Placement:
    """Placement of a node on its own account, without regard to its neighbours.

    Args:
        node: a node of the graph.
        fused: recipes are to be fused.
    """
    if requires_fallback(node):
        return Placement.EAGER
    target = node.target
    if node.op == "get_attr":
        return Placement.CLUSTER if isinstance(value_of(node), torch.Tensor) else Placement.CALL
    if node.op != "call_function" or isinstance(target, HigherOrderOperator):
        return Placement.CALL
    if not isinstance(target, OpOverload):
        return Placement.CLUSTER if is_arithmetic(target) else Placement.CALL
    if target in inductor.SEEDED:
        return Placement.CLUSTER
    if target is inductor.SEEDS or target.namespace not in _NAMESPACES:
        return Placement.CALL
    # A fused recipe is code for the CPU and would draw from the CPU's generator.
    if fused and draws_random_numbers(node):
        return Placement.CALL
    # By itself, but no fallback: fused code finds a wrong index in a parallel loop, whose error ends the
    # process; and a capture knows most of these operators by their tag and would refuse the whole cluster.
    if _MAY_DEPEND_ON_DATA & set(target.tags) and (fused or target not in _CAPTURED_BY_CALL):
        return Placement.CALL
    return Placement.CLUSTER


def draws_random_numbers(node: Node) -> bool:
    """Say whether a node calls a random operator; attention counts only if its dropout is not 0."""
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    for position, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[position] if position < len(node.args) else node.kwargs.get("dropout_p", 0.0)
            return given != 0.0
    return True


def is_arithmetic(target: Any) -> bool:
    """Say whether a target computes with Python numbers, or takes one item from a list of results."""
    module = getattr(target, "__module__", None)
    return target in (
        torch.sym_float,
        torch.sym_int,
        torch.sym_max,
        torch.sym_min,
        torch.sym_not,
    ) or module in (
        operator.__name__,
        "_operator",
        math.__name__,
        builtins.__name__,
        "torch.fx.experimental.sym_node",
        "torch.utils._sympy.functions",
    )


def operator_name(node: Node) -> str:
    """Qualified name of a node's operator, as in ``torch.ops.aten.add.Tensor``."""
    if node.op == "call_function":
        return _get_qualified_name(node.target)  # type: ignore[arg-type]
    return str(node.target)


def has_unbacked_symbols(value: Any) -> bool:
    """Say whether the shape of a fake value depends on data."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return any(free_unbacked_symbols(leaf) for leaf in shaped_leaves(value))


def _names(target: OpOverload) -> set[str]:
    schema = target._schema.name
    return {str(target), target.name(), schema, schema.split("::")[-1]}
