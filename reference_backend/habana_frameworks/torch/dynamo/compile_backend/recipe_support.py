"""Decide, operator by operator, whether a recipe can contain a node."""

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
from .context import Placement, leaves_with_symbols, tensors_in, value_of

logger = Logger("PT_COMPILE")

#: Names of operators that run separately although a recipe could contain them. A name has the form
#: ``aten::add.Tensor`` or ``aten.add.Tensor``, or for all overloads ``aten::add`` or ``add``.
hpu_fallback_op_list: list[str] = []

_NAMESPACES = frozenset({"aten", "prims"})

#: Tags of operators that may read values of their inputs or return them to the host, or whose output shapes
#: may depend on the values. For a single call, `_depends_on_data` decides by the arguments of the call.
_MAY_DEPEND_ON_DATA = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})

#: Operators with a tag in `_MAY_DEPEND_ON_DATA` that a capture accepts if the call does not depend on data. A
#: capture rejects all other operators with such a tag.
_CAPTURED_BY_CALL = frozenset({torch.ops.aten.index.Tensor})


def requires_fallback(node: Node) -> bool:
    """Return whether a node must run separately, between recipes, and log the result in one line.

    These nodes must run separately: operators of `hpu_fallback_op_list`, calls whose output shapes depend on
    data, and operators on tensors that are not strided.
    """
    reason = fallback_reason(node)
    logger.debug("Node: %s requires fallback: %s%s", node.name, bool(reason), reason and f", {reason}")
    return bool(reason)


def fallback_reason(node: Node) -> str:
    """Return the reason why a node must run outside of recipes, or an empty string if no reason exists."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, OpOverload):
        return ""
    if _names_in_fallback_list(target) & set(hpu_fallback_op_list):
        return "the operator is in hpu_fallback_op_list"
    values = [value_of(node), *(value_of(source) for source in node.all_input_nodes)]
    if any(tensor.layout != torch.strided for value in values for tensor in tensors_in(value)):
        return "not all tensors of the call are strided"
    if has_unbacked_symbols(value_of(node)) or _depends_on_data(node):
        return "the output shape depends on data"
    return ""


def _depends_on_data(node: Node) -> bool:
    """Return whether the result of this call, or the shape of the result, depends on values of the inputs.

    The operator runs on fake tensors with the shapes of the arguments. For example, ``x[i]`` reads values to
    determine its shape if ``i`` is a mask, and does not if ``i`` contains integers.
    """
    target = node.target
    if not isinstance(target, OpOverload) or not _MAY_DEPEND_ON_DATA & set(target.tags):
        return False
    try:
        # A separate fake mode, because the graph's mode may remember a size that the program checked.
        with FakeTensorMode():
            args, kwargs = map_arg(
                (node.args, node.kwargs), lambda source: _empty_with_example_shape(value_of(source))
            )
            target(*args, **kwargs)
    except Exception:  # the call depends on data, or the operator has no shape rule
        return True
    return False


def _empty_with_example_shape(value: Any) -> Any:
    """Return a new tensor with the shape of a fake value. Example values replace symbolic numbers."""
    if isinstance(value, torch.Tensor):
        return torch.empty(
            [_example_value(size) for size in value.shape], dtype=value.dtype, device=value.device
        )
    return _example_value(value)


def _example_value(value: Any) -> Any:
    """Return the example value (hint) of a symbolic number, or any other value unchanged."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value
    example = value.node.hint
    if example is None:
        raise ValueError(f"{value} has no example value, because it depends on data")
    return example


def placement_of(node: Node, fused: bool) -> Placement:
    """Return the placement of a node, without regard to the neighbours of the node.

    Args:
        node: a node of the graph.
        fused: recipes are fused, not interpreted.
    """
    if requires_fallback(node):
        return Placement.EAGER
    target = node.target
    if node.op == "get_attr":
        return Placement.CLUSTER if isinstance(value_of(node), torch.Tensor) else Placement.CALL
    if node.op != "call_function" or isinstance(target, HigherOrderOperator):
        return Placement.CALL
    if not isinstance(target, OpOverload):
        return Placement.CLUSTER if is_python_arithmetic(target) else Placement.CALL
    if target in inductor.SEEDED:
        return Placement.CLUSTER
    if target is inductor.SEEDS or target.namespace not in _NAMESPACES:
        return Placement.CALL
    # Fused recipes are CPU code, and the CPU has no kernels for the fused cells of recurrent networks.
    if fused and target._schema.name.startswith("aten::_thnn_fused_"):
        return Placement.CALL
    # In CPU code, random operators would use the CPU's generator.
    if fused and draws_random_numbers(node):
        return Placement.CALL
    # These operators run separately, but not as a fallback. Fused code would detect an invalid index in a
    # parallel loop, whose error ends the process. A capture of the cluster would fail, because a capture
    # rejects most of these operators by their tag.
    if _MAY_DEPEND_ON_DATA & set(target.tags) and (fused or target not in _CAPTURED_BY_CALL):
        return Placement.CALL
    return Placement.CLUSTER


def draws_random_numbers(node: Node) -> bool:
    """Return whether a node calls a random operator. Attention is random only if its dropout is not 0."""
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    for position, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            probability = (
                node.args[position] if position < len(node.args) else node.kwargs.get("dropout_p", 0.0)
            )
            return bool(probability != 0.0)
    return True


def is_python_arithmetic(target: Any) -> bool:
    """Return whether a target computes with Python numbers, or selects one item of a list of results."""
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
    """Return the qualified name of a node's operator, such as ``torch.ops.aten.add.Tensor``."""
    if node.op == "call_function":
        return _get_qualified_name(node.target)  # type: ignore[arg-type]
    return str(node.target)


def has_unbacked_symbols(value: Any) -> bool:
    """Return whether the shape of a fake value depends on data."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return any(free_unbacked_symbols(leaf) for leaf in leaves_with_symbols(value))


def _names_in_fallback_list(target: OpOverload) -> set[str]:
    schema = target._schema.name
    return {str(target), target.name(), schema, schema.split("::")[-1]}
