"""The promise of rounding to decimals.

torch.round multiplies by a power of ten, rounds, and divides. If the exact product is nearly halfway between
two integers, so that its rounding decides, a device may take either. Exactly halfway the even one is due.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from conformance.oracle.relations.relation import Claim
from conformance.samples.operators import Sample

#: Roundings of the product and the quotient that a device may make.
_ROUNDINGS = 4


def decimals(actual: torch.Tensor, expected: torch.Tensor, sample: Sample) -> Iterable[Claim] | None:
    """The results, both neighbours of values that are nearly halfway counted as right; None if none is."""
    source = sample.input
    if not isinstance(source, torch.Tensor) or not source.is_floating_point():
        return None
    if actual.shape != source.shape or expected.shape != source.shape:
        return None
    power = 10.0 ** int(sample.kwargs.get("decimals", 0))
    exact = source.detach().to(torch.float64)
    found = actual.detach().to(torch.float64)
    slack = _ROUNDINGS * torch.finfo(source.dtype).eps
    product = exact * power
    beyond = ((product - product.floor()) - 0.5).abs()
    halfway = (beyond > 0) & (beyond <= slack * product.abs())
    near = (found - exact).abs() <= 0.5 / power + slack * exact.abs()
    whole = ((found * power) - (found * power).round()).abs() <= slack * (found * power).abs()
    either = halfway & near & whole
    if not bool(either.any()):
        return None
    return [Claim("the result", torch.where(either, expected.to(actual.dtype), actual), expected)]
