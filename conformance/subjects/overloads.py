"""Overloads: the functions of ``torch.ops.aten`` that operators call, with their in-place and ``out=`` forms.

An operator of torch's database calls overloads, and most overloads have a separate kernel on a device.
``overloads.json``, which ``python -m tools.generate.overload_table`` writes, lists for each overload the
operators that call it on the CPU and the dtypes. All forms of an overload are one subject: the subject
``add.Tensor`` represents ``add.Tensor``, ``add_.Tensor`` and ``add.out``.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

_FILE = Path(__file__).parent / "overloads.json"

#: Overloads that are pointwise according to torch's documentation, although torch does not tag them.
_POINTWISE = frozenset(
    {
        *("elu_backward", "hardshrink_backward", "hardsigmoid_backward", "hardswish_backward"),
        *("hardtanh_backward", "leaky_relu_backward", "mish_backward", "softplus_backward"),
        *("softshrink_backward", "rsub.Tensor"),
    }
)

#: Arguments of a factory function that its ``out=`` form derives from the ``out`` tensor.
TAKEN_FROM_OUT = ("dtype", "layout", "device", "pin_memory", "memory_format")


@dataclasses.dataclass(frozen=True)
class Overload:
    """An overload with its forms, and the operators that call it.

    ``op`` is the functional form, or another form if the functional form does not exist. ``in_place`` and
    ``out`` are the other forms, with the same arguments; ``out`` also has the ``out=`` arguments ``outs``.

    The samples of ``operators`` in torch's database call the overload in ``dtypes``. If ``backward`` is true,
    only their backward passes call it. ``converted`` is the part of ``dtypes`` in which no sample calls the
    overload; its calls are converted from a different dtype.

    ``random`` means that the overload draws random numbers, ``pointwise`` that each element of the result is
    computed from one element of each argument. ``idle`` maps a property to the dtypes in which the property
    has nothing to compare on the CPU.
    """

    op: Any
    in_place: Any
    out: Any
    outs: Sequence[str]
    operators: Sequence[str]
    dtypes: Sequence[str]
    backward: bool
    random: bool
    idle: Mapping[str, Sequence[str]]
    pointwise: bool = False
    converted: Sequence[str] = ()


def name_without_namespace(op: Any) -> str:
    """Return ``add.Tensor`` for ``torch.ops.aten.add.Tensor``, ``relu`` for ``aten.relu.default``."""
    bare = str(op._schema.name).partition("::")[2]
    return f"{bare}.{op._schema.overload_name}" if op._schema.overload_name else bare


def functional_form_of(op: Any) -> Any:
    """Return the functional form of an overload, which returns new tensors; return the overload itself if it
    has no functional form.

    The returned function may write other arguments, as batch_norm writes its running statistics.
    """
    schema = op._schema
    if not any(_is_written(argument) for argument in schema.arguments):
        return op
    bare = str(schema.name).partition("::")[2]
    names = [bare, bare.rstrip("_"), bare.removesuffix("_out")]
    if bare.endswith("__"):
        names = [bare, bare.replace("__i", "__", 1)]
    for candidate in _overloads(names):
        arguments = candidate._schema.arguments
        if (arguments and _is_written(arguments[0])) or out_argument_names(candidate):
            continue
        if op in (in_place_form_of(candidate), out_form_of(candidate)):
            return candidate
    return op


def in_place_form_of(op: Any) -> Any:
    """Return the in-place form of an overload, which writes its result into the first argument, or None."""
    bare = str(op._schema.name).partition("::")[2]
    wanted = _signature(op._schema.arguments)
    name = bare.replace("__", "__i", 1) if bare.endswith("__") else bare + "_"  # __and__ becomes __iand__
    for candidate in _overloads([name]):
        arguments = candidate._schema.arguments
        if _signature(arguments) == wanted and arguments and _is_written(arguments[0]):
            return candidate
    return None


def out_form_of(op: Any) -> Any:
    """Return the ``out=`` form of an overload, or None."""
    bare = str(op._schema.name).partition("::")[2]
    wanted = op._schema.arguments
    nearest = None
    for candidate in _overloads([bare, bare + "_out"]):
        arguments = candidate._schema.arguments
        outs = [argument for argument in arguments if argument.kwarg_only and _is_written(argument)]
        rest = [argument for argument in arguments if argument not in outs]
        if not outs or any(str(argument.type) != "Tensor" for argument in outs):
            continue
        if len(outs) != len(op._schema.returns) or _without_arguments_taken_from_out(
            rest
        ) != _without_arguments_taken_from_out(wanted):
            continue
        if _signature(rest) == _signature(wanted):
            return candidate
        nearest = nearest or candidate
    return nearest


def out_argument_names(op: Any) -> list[str]:
    """Return the names of the ``out=`` arguments of an overload."""
    return [a.name for a in op._schema.arguments if a.kwarg_only and _is_written(a)]


def _signature(arguments: Sequence[Any]) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in arguments]


def _without_arguments_taken_from_out(arguments: Sequence[Any]) -> list[tuple[str, str]]:
    return [item for item in _signature(arguments) if item[0] not in TAKEN_FROM_OUT]


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _overloads(names: Sequence[str]) -> Iterator[Any]:
    for name in dict.fromkeys(names):
        packet: Any = getattr(torch.ops.aten, name, None)
        for overload in [] if packet is None or not hasattr(packet, "overloads") else packet.overloads():
            yield getattr(packet, overload)


@functools.cache
def overload_table() -> dict[str, Overload]:
    """Return the overloads of the installed torch, by name."""
    overload_by_name = {}
    for name, row in json.loads(_FILE.read_text()).items():
        bare, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, bare, None), overload or "default", None)
        if op is not None:
            out = out_form_of(op)
            overload_by_name[name] = Overload(
                op,
                in_place_form_of(op),
                out,
                () if out is None else tuple(out_argument_names(out)),
                row["operators"],
                row["dtypes"],
                row["backward"],
                torch.Tag.nondeterministic_seeded in op.tags and row.get("draws", True),
                row.get("idle", {}),
                torch.Tag.pointwise in op.tags or name in _POINTWISE,
                row.get("converted", ()),
            )
    return overload_by_name
