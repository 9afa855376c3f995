"""The relation of rounding to decimals.

torch.round multiplies by a power of ten, rounds and divides. If the exact product is not halfway between two
integers but within rounding errors of it, both integers are correct. At an exact half, the even integer is
required.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from conformance.oracle.relations.relation import Equation
from conformance.samples.operators import Sample

#: The allowed relative rounding error of the device's product and quotient, in units of the dtype.
_ROUNDINGS = 4


def rounded_decimals_equations(
    actual: torch.Tensor, expected: torch.Tensor, sample: Sample
) -> Iterable[Equation] | None:
    """Return the equation of the results. If a value is nearly halfway between two rounded values, both
    rounded values are correct.

    Return None if no value is nearly halfway.
    """
    source = sample.input
    if not isinstance(source, torch.Tensor) or not source.is_floating_point():
        return None
    if actual.shape != source.shape or expected.shape != source.shape:
        return None
    power = 10.0 ** int(sample.kwargs.get("decimals", 0))
    exact = source.detach().to(torch.float64)
    actual_values = actual.detach().to(torch.float64)
    slack = _ROUNDINGS * torch.finfo(source.dtype).eps
    product = exact * power
    distance_to_half = ((product - product.floor()) - 0.5).abs()
    halfway = (distance_to_half > 0) & (distance_to_half <= slack * product.abs())
    is_near = (actual_values - exact).abs() <= 0.5 / power + slack * exact.abs()
    is_multiple = ((actual_values * power) - (actual_values * power).round()).abs() <= slack * (
        actual_values * power
    ).abs()
    either = halfway & is_near & is_multiple
    if not bool(either.any()):
        return None
    return [Equation("the result", torch.where(either, expected.to(actual.dtype), actual), expected)]
