"""Find the functional operator that computes the same results as a recorded call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

from .description import Call, NotFusable

aten = torch.ops.aten
# Recorded arguments contain enumerations as numbers of c10. These tables map the numbers to torch's objects.
_LAYOUTS = {0: torch.strided}
_MEMORY_FORMATS = dict(
    enumerate((torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d))
)
_DTYPES = dict(
    enumerate(
        (
            *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32),
            *(torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.bool),
        )
    )
) | {15: torch.bfloat16}
# Batch norm in training writes the running statistics; its functional form returns the new statistics last.
_RUNNING_STATISTICS = {"aten::native_batch_norm", "aten::_native_batch_norm_legit"}
# View operators that reject some strides. The strides of an FX value may differ from the recorded strides, so
# `reshape` replaces these operators.
_RESHAPES = {
    "aten::_unsafe_view",
    "aten::view",
    "aten::_reshape_alias",
    "aten::view_copy",
    "aten::_reshape_copy",
}


@dataclass
class Functional:
    """The functional operator that replaces a recorded call.

    Attributes:
        op: the operator.
        arguments: positions of the call's arguments that the operator takes, in the order of its schema.
        mutated: for each written argument (in order), index of the result that is the argument's new value.
        results: indices of the operator's results that are the results of the call.
        clones: the operator itself writes to arguments, so it must get clones of the written arguments.
    """

    op: torch._ops.OpOverload
    arguments: list[int]
    mutated: list[int]
    results: list[int]
    clones: bool = False


def resolve_operator(name: str) -> torch._ops.OpOverload:
    """Return the operator of a name such as "aten::add.Tensor".

    Raises:
        NotFusable: the operator does not exist in this release of torch.
    """
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, namespace), base)
        operator: OpOverload = getattr(packet, overload or "default")
        return operator
    except AttributeError:
        raise NotFusable(f"{name}: the operator does not exist in this release of torch") from None


def _signature(arguments: list[Any]) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.real_type)) for argument in arguments]


def _find_pure_overload(
    packet_name: str, namespace: str, signature: list[tuple[str, str]]
) -> torch._ops.OpOverload | None:
    """Return the overload of `packet_name` that has exactly this signature and writes nothing, or None."""
    packet = getattr(getattr(torch.ops, namespace), packet_name, None)
    for name in packet.overloads() if packet is not None else ():
        candidate: OpOverload = getattr(packet, name)
        schema = candidate._schema
        if not schema.is_mutable and _signature(schema.arguments) == signature:
            return candidate
    return None


def reject_random_operator(op: torch._ops.OpOverload, call: Call) -> None:
    """Reject operators that draw random numbers.

    Raises:
        NotFusable: the operator draws random numbers with these arguments.
    """
    if torch.Tag.nondeterministic_seeded not in op.tags:
        return
    names = (argument.name for argument in op._schema.arguments)
    arguments = dict(zip(names, call.args, strict=True))
    # These operators do not draw random numbers if the dropout probability is 0.
    probability = arguments.get("dropout_p", 1.0)
    if op is aten.native_dropout.default:
        probability = 0.0 if arguments["train"] is False else arguments["p"]
    if probability != 0.0:
        raise NotFusable(f"{call.op}: draws random numbers")


def functional_operator_of(call: Call) -> Functional:
    """Return the functional operator that replaces a call.

    Raises:
        NotFusable: the operator is unknown or random, or its functional form is unknown.
    """
    op = resolve_operator(call.op)
    arguments = op._schema.arguments
    if len(arguments) != len(call.args):
        raise NotFusable(f"{call.op}: {len(call.args)} arguments, but the schema has {len(arguments)}")
    reject_random_operator(op, call)
    everything = list(range(len(arguments)))
    if call.op in _RESHAPES:
        return Functional(aten.reshape.default, [0, 1], [], [0])
    if not call.writes:
        if op._schema.is_mutable:
            raise NotFusable(
                f"{call.op}: the schema declares a write, but the recorded call wrote to no argument"
            )
        return Functional(op, everything, [], list(range(len(call.results))))
    name = call.op.partition(".")[0]
    if name in _RUNNING_STATISTICS:
        if call.writes != (3, 4) or not call.args[5]:
            raise NotFusable(f"{call.op}: writes {call.writes}")
        batch_norm = aten._native_batch_norm_legit_functional.default
        return Functional(batch_norm, everything, [3, 4], [0, 1, 2])
    namespace, _, base = name.partition("::")
    if all(arguments[position].is_out for position in call.writes):
        taken_positions = [position for position in everything if not arguments[position].is_out]
        counterpart = _find_pure_overload(
            base, namespace, _signature([arguments[position] for position in taken_positions])
        )
    else:
        taken_positions = everything
        base = base[:-1] if base.endswith("_") and not base.endswith("__") else base
        base = "__" + base[3:] if base.startswith("__i") and base.endswith("__") else base
        counterpart = (
            _find_pure_overload(base, namespace, _signature(arguments)) if call.writes == (0,) else None
        )
    if counterpart is not None:
        order = list(range(len(call.writes)))
        return Functional(counterpart, taken_positions, order, order)
    # Functionalization does not support the fused optimizers: some of their list arguments are only read.
    if namespace != "aten" or base.startswith("_fused_"):
        raise NotFusable(f"{call.op}: its functional form is unknown")
    return Functional(op, everything, [], list(range(len(call.results))), clones=True)


def convert_recorded_argument(argument: Any, value: Any) -> Any:
    """Convert a recorded argument to its Python form: numeric values of enumerations become objects.

    Args:
        argument: the argument of the operator's schema.
        value: the recorded value.

    Raises:
        NotFusable: the numeric value is unknown.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        kind = str(argument.real_type)
        for name, table in (("ScalarType", _DTYPES), ("MemoryFormat", _MEMORY_FORMATS), ("Layout", _LAYOUTS)):
            if name in kind:
                if value not in table:
                    raise NotFusable(f"{name} {value} is unknown")
                return table[value]
    return value
