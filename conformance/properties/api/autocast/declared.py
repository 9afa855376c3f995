"""The lists of operators that a backend declares for autocast, each operator on every list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework import trees
from conformance.properties.api.autocast._calls import calls

#: The dtypes that autocast can lower to.
LOWER = (torch.bfloat16, torch.float16)
NOTHING_LISTED = "the target file lists no such operators under [autocast]"


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """Return a tree with its tensors of floats in another dtype."""
    return trees.tree_map(
        lambda leaf: leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf,
        value,
    )


def _call(
    lab: Lab,
    op: Any,
    given: Sequence[Any],
    options: Mapping[str, Any],
    lower: torch.dtype,
    due: torch.dtype,
    *,
    first: bool = False,
) -> Any:
    """Call under autocast on the target; beside it, what that documents to be: a call of cast arguments."""
    if lab.on_target:
        with torch.autocast(lab.device.type, dtype=lower):
            return op(*given, **options)
    cast = [_cast(given[0], due), *given[1:]] if first else _cast(list(given), due)
    return op(*cast, **options)


def _both_times(
    lab: Lab,
    names: Sequence[str],
    given_in: torch.dtype,
    lower: torch.dtype,
    due: torch.dtype,
    *,
    first: bool = False,
) -> None:
    """Call each operator in two regions of autocast, and change all arguments that are weights in between."""
    if not names:
        lab.nothing_due(NOTHING_LISTED)
    for word, op, given, options in calls(lab, names, given_in):
        for time in ("", ", its weights changed"):
            result = _call(lab, op, given, options, lower, due, first=first)
            floats = [t.detach() for t in trees.tensors(result) if t.is_floating_point()]
            what = f"{word} of {given_in} under {lower}{time}"
            lab.holds(f"the result of {what} is {due}", all(t.dtype == due for t in floats))
            roundings = 256 if due == torch.float32 else 64
            lab.close(what, floats, roundings=roundings, dtype=due, matrix=due != torch.float32)
            finite = all(bool(t.isfinite().all()) for t in floats)
            lab.holds(f"the result of {what} has numbers that weights can change", finite)
            with torch.no_grad():
                for place, tensor in enumerate(trees.tensors(given), 1):
                    if tensor.requires_grad:  # not in proportion nor alike, which quotients do not show
                        tensor.copy_(tensor.cpu().roll(place, -1) * 0.75)


@behaviour("autocast", level="training", sees=("value",))
def operators_declared_to_be_lowered(lab: Lab) -> None:
    """Every operator that the backend lists as lowered runs in the lower dtype, also after its weights have
    changed; of some only the first argument is cast (torch.amp: "Ops that can autocast to bfloat16").
    """
    for lower in LOWER:
        _both_times(lab, lab.target.autocast.get("lower", ()), torch.float32, lower, lower)
        firsts = lab.target.autocast.get("lower_first", ())
        _both_times(lab, firsts, torch.float32, lower, lower, first=True)


@behaviour("autocast", level="training", sees=("value",))
def operators_declared_to_keep_float32(lab: Lab) -> None:
    """Every operator that the backend lists for float32 runs in it, whatever its arguments are (torch.amp:
    "Ops that can autocast to float32").
    """
    names = lab.target.autocast.get("float32", ())
    _both_times(lab, names, torch.bfloat16, torch.bfloat16, torch.float32)
    _both_times(lab, names, torch.float32, torch.bfloat16, torch.float32)


@behaviour("autocast", level="training", sees=("value",))
def operators_declared_to_promote(lab: Lab) -> None:
    """Every operator that the backend lists for promotion runs in the widest dtype of its arguments
    (torch.amp: "Ops that promote to the widest input type").
    """
    names = lab.target.autocast.get("promote", ())
    if not names:
        lab.nothing_due(NOTHING_LISTED)
    for name in names:
        for given_in in (torch.float32, torch.bfloat16):
            _both_times(lab, (name,), given_in, torch.bfloat16, given_in)
        for word, op, given, options in calls(lab, (name,), torch.float32):
            floats = sum(tensor.is_floating_point() for tensor in trees.tensors(given))
            for narrow, tensor in enumerate(trees.tensors(given)):
                if not tensor.is_floating_point() or floats < 2:
                    continue
                mixed = _narrowed(given, narrow)
                result = _call(lab, op, mixed, options, torch.bfloat16, torch.float32)
                what = f"{word} with argument {narrow} of bfloat16"
                lab.holds(f"the result of {what} is float32", result.dtype == torch.float32)
                lab.close(what, result.detach(), roundings=16)


def _narrowed(given: Sequence[Any], place: int) -> Sequence[Any]:
    chosen = trees.tensors(given)[place]
    return list(trees.tree_map(lambda leaf: leaf.to(torch.bfloat16) if leaf is chosen else leaf, list(given)))
