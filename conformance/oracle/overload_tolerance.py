"""The tolerance of an overload: that of the operator that calls it, for the arguments of the call."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch

from conformance.framework.tolerances import Rule, rule
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample, dtype_name
from conformance.subjects.overloads import Overload

#: Operators whose tolerance holds for all options of an overload, if that of the first one does not.
_RULES = {
    **dict.fromkeys(("index_reduce", "scatter_reduce", "scatter", "put", "index_put"), "scatter_add"),
    **{"div": "true_divide", "remainder": "remainder", "rsub": "rsub"},
}
#: Overloads that are given what they multiply a gradient with before its parts cancel.
_NORMALISES = re.compile(r"\w*(batch|layer|group)_norm_backward$")
_INVERSE_DEVIATIONS = ("rstd", "save_invstd", "save_var")
_WEIGHTS = ("weight", "gamma")


def rule_of_overload(name: str, overload: Overload, dtype: torch.dtype, sample: Sample) -> Rule:
    """Return the tolerance rule of a call in a dtype; ``name`` is that of the overload.

    What is pointwise adds nothing up: errors do not grow with the number of elements.
    """
    base = base_name(name)
    direction = "backward" if overload.backward else "forward"
    # Converted calls are of the operator of the overload's own name, which is the last one.
    operator = overload.operators[-1 if dtype_name(dtype) in overload.converted else 0]
    found = rule(_RULES.get(base, operator), dtype, direction)
    if overload.pointwise:
        return dataclasses.replace(found, growth="none", local=True)
    if _NORMALISES.match(base) and found.scale > 1:
        return dataclasses.replace(found, scale=min(found.scale, _largest_part(overload, sample)))
    return found


def _largest_part(overload: Overload, sample: Sample) -> float:
    """Return a bound of the parts of a normalisation's gradient: gradient times weight over deviation."""
    given: list[Any] = [sample.input, *sample.args]
    names = [argument.name for argument in overload.op._schema.arguments]
    named = dict(zip(names, given, strict=False))
    inverse = [_largest(named[name]) for name in _INVERSE_DEVIATIONS if _largest(named.get(name))]
    in_training = named.get("train") or named.get("update")
    if isinstance(named.get("running_var"), torch.Tensor) and not in_training:
        least = float(named["running_var"].double().min()) + float(named.get("eps") or 0.0)
        inverse.append(least**-0.5 if least > 0 else float("inf"))
    weight = max([1.0, *(_largest(named.get(name)) for name in _WEIGHTS)])
    return max(inverse, default=float("inf")) * weight * max(1.0, _largest(sample.input))


def _largest(value: Any) -> float:
    return (
        float(value.detach().double().abs().max())
        if isinstance(value, torch.Tensor) and value.numel()
        else 0.0
    )
