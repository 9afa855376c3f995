"""Select the tolerance rule of an overload: the rule of the operator that calls the overload, adapted to the
arguments.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch

from conformance.framework.tolerances import Rule, rule
from conformance.oracle.mean_rounding import arguments_by_name
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample, dtype_name
from conformance.subjects.overloads import Overload

#: Maps the base name of an overload to the operator whose rule it uses. All other overloads use the rule of
#: the first operator that calls them. The rule of ``scatter_reduce.prod`` is the rule of
#: accumulation without the larger error of long sequential sums.
_RULE_OPERATORS = {
    **dict.fromkeys(("index_reduce", "scatter_reduce", "scatter", "put", "index_put"), "scatter_reduce.prod"),
    **{"div": "true_divide", "remainder": "remainder", "rsub": "rsub"},
}
#: Matches backward overloads of normalisations. These overloads multiply a gradient by the inverse
#: standard deviation and the weight, which are arguments of the call. The resulting terms are added and
#: cancel, so the allowed error depends on the largest term.
_NORMALISES = re.compile(r"\w*(batch|layer|group)_norm_backward$")
_INVERSE_DEVIATIONS = ("rstd", "save_invstd", "save_var")
_WEIGHTS = ("weight", "gamma")


def rule_of_overload(name: str, overload: Overload, dtype: torch.dtype, sample: Sample) -> Rule:
    """Return the tolerance rule of a call; ``name`` is the name of the overload.

    A pointwise overload has no sums, so its error does not grow with the number of elements.
    """
    base = base_name(name)
    direction = "backward" if overload.backward else "forward"
    # In a dtype of ``converted``, the calls belong to the operator with the overload's own name, which is the
    # last operator in the list.
    operator = overload.operators[-1 if dtype_name(dtype) in overload.converted else 0]
    operator_rule = rule(_RULE_OPERATORS.get(base, operator), dtype, direction)
    if overload.pointwise:
        return dataclasses.replace(operator_rule, growth="none", local=True)
    if _NORMALISES.match(base) and operator_rule.scale > 1:
        return dataclasses.replace(
            operator_rule, scale=min(operator_rule.scale, _largest_gradient_term(overload, sample))
        )
    return operator_rule


def _largest_gradient_term(overload: Overload, sample: Sample) -> float:
    """Return an upper bound of the terms of a normalisation's gradient. A term is the gradient times the
    weight, divided by the standard deviation.
    """
    arguments = arguments_by_name(overload.op, sample)
    inverse_deviations = [
        _largest_magnitude(arguments[name])
        for name in _INVERSE_DEVIATIONS
        if _largest_magnitude(arguments.get(name))
    ]
    in_training = arguments.get("train") or arguments.get("update")
    if isinstance(arguments.get("running_var"), torch.Tensor) and not in_training:
        least = float(arguments["running_var"].double().min()) + float(arguments.get("eps") or 0.0)
        inverse_deviations.append(least**-0.5 if least > 0 else float("inf"))
    weight = max([1.0, *(_largest_magnitude(arguments.get(name)) for name in _WEIGHTS)])
    return max(inverse_deviations, default=float("inf")) * weight * max(1.0, _largest_magnitude(sample.input))


def _largest_magnitude(value: Any) -> float:
    """Return the largest absolute value of a tensor; 0 for any other value and without elements."""
    return (
        float(value.detach().double().abs().max())
        if isinstance(value, torch.Tensor) and value.numel()
        else 0.0
    )
