"""Behaviours of the operators that a target file lists for autocast. An operator is checked once for each
list in which it occurs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework import trees
from conformance.properties.api.autocast._calls import autocast_calls

#: The dtypes to which autocast can lower float32.
LOWER = (torch.bfloat16, torch.float16)
NOTHING_LISTED = "the target file lists no operators of this kind under [autocast]"


def _cast_floating_tensors(value: Any, dtype: torch.dtype) -> Any:
    """Return a tree in which the floating tensors are converted to ``dtype``."""
    return trees.tree_map(
        lambda leaf: leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf,
        value,
    )


def _call_under_autocast(
    lab: Lab,
    op: Any,
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    lower: torch.dtype,
    expected_dtype: torch.dtype,
    *,
    first_argument_only: bool = False,
) -> Any:
    """Return the result of an operator under autocast on the target.

    On the CPU, call the operator without autocast, with arguments cast to ``expected_dtype``. This is the
    documented equivalent of autocast. With ``first_argument_only``, only the first argument is cast.
    """
    if lab.on_target:
        with torch.autocast(lab.device.type, dtype=lower):
            return op(*arguments, **options)
    cast = (
        [_cast_floating_tensors(arguments[0], expected_dtype), *arguments[1:]]
        if first_argument_only
        else _cast_floating_tensors(list(arguments), expected_dtype)
    )
    return op(*cast, **options)


def _compare_in_two_autocast_regions(
    lab: Lab,
    names: Sequence[str],
    input_dtype: torch.dtype,
    lower: torch.dtype,
    expected_dtype: torch.dtype,
    *,
    first_argument_only: bool = False,
) -> None:
    """Record the result of each operator in two autocast regions. Between the regions, change all arguments
    that require grad, so that an operator that reuses a cached cast of the first region is detected.
    """
    if not names:
        lab.nothing_due(NOTHING_LISTED)
    for call_name, op, arguments, options in autocast_calls(lab, names, input_dtype):
        for time in ("", ", its weights changed"):
            result = _call_under_autocast(
                lab, op, arguments, options, lower, expected_dtype, first_argument_only=first_argument_only
            )
            floats = [t.detach() for t in trees.tensors(result) if t.is_floating_point()]
            label = f"{call_name} of {input_dtype} under {lower}{time}"
            lab.holds(
                f"the result of {label} is {expected_dtype}", all(t.dtype == expected_dtype for t in floats)
            )
            roundings = 256 if expected_dtype == torch.float32 else 64
            lab.close(
                label,
                floats,
                roundings=roundings,
                dtype=expected_dtype,
                matrix=expected_dtype != torch.float32,
            )
            finite = all(bool(t.isfinite().all()) for t in floats)
            lab.holds(f"the result of {label} is finite", finite)
            with torch.no_grad():
                for shift, tensor in enumerate(trees.tensors(arguments), 1):
                    if tensor.requires_grad:  # also rolled: a common factor would cancel in quotients
                        tensor.copy_(tensor.cpu().roll(shift, -1) * 0.75)


@behaviour(
    "autocast",
    level="training",
    must_detect=("value",),
    ground="The target file names the operators; the page says in which dtype a listed operator runs",
)
def operators_declared_to_be_lowered(lab: Lab) -> None:
    """Every operator that the target file lists as lowered runs in the lower dtype, also after the operator's
    weights have changed. For operators in the list ``lower_first``, only the first argument is cast
    (``torch.amp``: "Ops that can autocast to bfloat16").
    """
    for lower in LOWER:
        _compare_in_two_autocast_regions(
            lab, lab.target.autocast.get("lower", ()), torch.float32, lower, lower
        )
        firsts = lab.target.autocast.get("lower_first", ())
        _compare_in_two_autocast_regions(lab, firsts, torch.float32, lower, lower, first_argument_only=True)


@behaviour(
    "autocast",
    level="training",
    must_detect=("value",),
    ground="The target file names the operators; the page says in which dtype a listed operator runs",
)
def operators_declared_to_keep_float32(lab: Lab) -> None:
    """Every operator that the target file lists for float32 runs in float32, for any dtype of its arguments
    (``torch.amp``: "Ops that can autocast to float32").
    """
    names = lab.target.autocast.get("float32", ())
    _compare_in_two_autocast_regions(lab, names, torch.bfloat16, torch.bfloat16, torch.float32)
    _compare_in_two_autocast_regions(lab, names, torch.float32, torch.bfloat16, torch.float32)


@behaviour(
    "autocast",
    level="training",
    must_detect=("value",),
    ground="The target file names the operators; the page says in which dtype a listed operator runs",
)
def operators_declared_to_promote(lab: Lab) -> None:
    """Every operator that the target file lists for promotion runs in the widest dtype of its arguments
    (``torch.amp``: "Ops that promote to the widest input type").
    """
    names = lab.target.autocast.get("promote", ())
    if not names:
        lab.nothing_due(NOTHING_LISTED)
    for name in names:
        for input_dtype in (torch.float32, torch.bfloat16):
            _compare_in_two_autocast_regions(lab, (name,), input_dtype, torch.bfloat16, input_dtype)
        for call_name, op, arguments, options in autocast_calls(lab, (name,), torch.float32):
            floats = sum(tensor.is_floating_point() for tensor in trees.tensors(arguments))
            for narrow, tensor in enumerate(trees.tensors(arguments)):
                if not tensor.is_floating_point() or floats < 2:
                    continue
                mixed = _with_bfloat16_tensor(arguments, narrow)
                result = _call_under_autocast(lab, op, mixed, options, torch.bfloat16, torch.float32)
                label = f"{call_name} with argument {narrow} of bfloat16"
                lab.holds(f"the result of {label} is float32", result.dtype == torch.float32)
                lab.close(label, result.detach(), roundings=16)


def _with_bfloat16_tensor(arguments: Sequence[Any], tensor_index: int) -> Sequence[Any]:
    chosen = trees.tensors(arguments)[tensor_index]
    return list(
        trees.tree_map(lambda leaf: leaf.to(torch.bfloat16) if leaf is chosen else leaf, list(arguments))
    )
