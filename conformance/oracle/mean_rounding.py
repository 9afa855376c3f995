"""The effect of rounded means on the results of a normalisation, which the sensitivity does not cover.

A normalisation subtracts the mean of a group of elements and divides by the standard deviation of the group.
A rounding of the mean moves all results of the group by the same distance. Kernels that compute
``x * factor + offset`` round two values of this size. No argument can move the mean without moving the
elements. In a group of two elements the results are -1 and 1 for almost all arguments, so the sensitivity is
almost zero.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from conformance.samples.operators import Sample


def sizes_of_scaled_means(function: Any, sample: Sample) -> torch.Tensor | None:
    """Return, for each element of the input, ``|mean| / deviation * |weight|`` of its group in float64.

    ``weight`` is the largest weight. Return None if the call does not compute means of its input.
    """
    arguments = arguments_by_name(function, sample)
    groups = _with_group_dimensions(arguments)
    if groups is None:
        return None
    elements, dimensions = groups
    deviation = (elements.var(dimensions, correction=0, keepdim=True) + arguments["eps"]).sqrt()
    means: torch.Tensor = elements.mean(dimensions, keepdim=True).abs() / deviation
    weight = arguments.get("weight")
    if isinstance(weight, torch.Tensor):
        means = means * weight.detach().double().abs().max()
    return means.nan_to_num(0.0, 0.0, 0.0).expand_as(elements).reshape(sample.input.shape)


def arguments_by_name(function: Any, sample: Sample) -> dict[str, Any]:
    """Return the arguments of a call by the names of the parameters, with defaults.

    ``function`` is an overload or a Python function, or wraps one. The mapping is empty if the names are
    unknown.
    """
    function, given = inspect.unwrap(function), [sample.input, *sample.args]
    schema = getattr(function, "_schema", None)
    if schema is not None:
        parameters = schema.arguments
        defaults = {p.name: p.default_value for p in parameters if p.has_default_value()}
        return {**defaults, **dict(zip((p.name for p in parameters), given, strict=False)), **sample.kwargs}
    try:
        bound = inspect.signature(function).bind(*given, **sample.kwargs)
    except (TypeError, ValueError):
        return {}
    bound.apply_defaults()
    return dict(bound.arguments)


def _with_group_dimensions(arguments: Mapping[str, Any]) -> tuple[torch.Tensor, list[int]] | None:
    """Return the input in float64, and the dimensions over which the call computes a mean.

    Return None if the call computes no mean, as with running statistics, or if the input is empty.
    """
    tensor = next(iter(arguments.values()), None)
    if (
        not {"input", "bias", "eps"} <= arguments.keys()
        or tensor is not arguments["input"]
        or not isinstance(tensor, torch.Tensor)
        or tensor.numel() == 0
    ):
        return None
    elements = tensor.detach().double()
    if "normalized_shape" in arguments:
        return elements, list(range(-len(arguments["normalized_shape"]), 0))
    group_count = arguments.get("num_groups", arguments.get("group"))
    if group_count is not None:
        return elements.reshape(tensor.shape[0], int(group_count), -1), [2]
    computes_mean = arguments.get("use_input_stats", arguments.get("training", True))
    first_reduced = 2 if "use_input_stats" in arguments else 0
    dimensions = [i for i in range(tensor.dim()) if i != 1 and i >= first_reduced]
    return (elements, dimensions) if computes_mean and tensor.dim() > 1 and dimensions else None
