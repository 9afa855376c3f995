"""Adapt the tolerance rule of a normalisation to the size of the means.

A normalisation subtracts the mean of a group of elements and divides by the standard deviation of the group.
A rounding of the mean moves all results of the group by the same distance: half a unit of the mean divided by
the standard deviation. Kernels that compute ``x * factor + offset`` round two values of this size. The
sensitivity does not cover these roundings, because an argument cannot move the mean without moving the
elements. In a group of two elements the results are -1 and 1 for almost all arguments, so the sensitivity is
almost zero.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Mapping
from typing import Any

import torch

from conformance.framework.tolerances import Rule
from conformance.samples.operators import Sample

#: The allowed number of units of the mean. A kernel rounds the mean, the product and the offset, each by at
#: most half a unit.
_UNITS_OF_MEAN = 2.0


def with_rounded_means(rule: Rule, names: tuple[str, ...], sample: Sample) -> Rule:
    """Return the rule with a scale that allows roundings of the means, or the rule itself.

    ``names`` are the parameter names of the operator or overload, which the sample calls.
    """
    if rule.name != "normalisation" or not isinstance(sample.input, torch.Tensor):
        return rule
    arguments = {**dict(zip(names, [sample.input, *sample.args], strict=False)), **sample.kwargs}
    groups = _groups(names, arguments)
    if groups is None or groups.numel() == 0:
        return rule
    eps = arguments.get("eps")
    deviation = (groups.var(1, correction=0) + (1e-5 if eps is None else eps)).sqrt()
    weight = arguments.get("weight")
    factor = float(weight.detach().double().abs().max()) if isinstance(weight, torch.Tensor) else 1.0
    largest = float((groups.mean(1).abs() / deviation).nan_to_num(0.0, 0.0, 0.0).max()) * factor
    return dataclasses.replace(rule, scale=max(rule.scale, largest * _UNITS_OF_MEAN / rule.k))


def parameter_names(function: Any) -> tuple[str, ...]:
    """Return the parameter names of an overload or a Python function; empty if it has no signature."""
    schema = getattr(function, "_schema", None)
    if schema is not None:
        return tuple(argument.name for argument in schema.arguments)
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _groups(names: tuple[str, ...], arguments: Mapping[str, Any]) -> torch.Tensor | None:
    """Return the elements of each group as a row in float64, or None if the call computes no means."""
    if not {"input", "bias"} <= {*names} or arguments["input"].dim() < 2 or arguments["input"].numel() == 0:
        return None
    tensor: torch.Tensor = arguments["input"].detach().double()
    if "normalized_shape" in names:
        return tensor.reshape(-1, math.prod(arguments["normalized_shape"]))
    count = arguments.get("num_groups", arguments.get("group"))
    if count is not None:
        return tensor.reshape(tensor.shape[0] * int(count), -1)
    if "use_input_stats" in names:
        return tensor.flatten(0, 1).flatten(1) if arguments.get("use_input_stats", True) else None
    is_training = arguments.get("training", False) if "training" in names else True
    return tensor.transpose(0, 1).flatten(1) if is_training else None
