"""The relation of counts in a floating-point dtype.

A count in a floating-point dtype that grows in steps of one stops at two to the power of the dtype's
significant bits: 256 in bfloat16, 2,048 in float16. histc counts in the dtype of its input. A bin with more
elements may hold this limit, the sum of the limits of several threads, or the exact count. All are correct.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from conformance.oracle.relations.relation import Equation
from conformance.samples.operators import Sample


def histc(actual: torch.Tensor, expected: torch.Tensor, sample: Sample) -> Iterable[Equation] | None:
    """Return the equation of the bins. A bin at the limit may have any count up to the exact count.

    Return None if no bin reached the limit.
    """
    source = sample.input
    if not isinstance(source, torch.Tensor) or not source.is_floating_point():
        return None
    eps = torch.finfo(source.dtype).eps
    limit = 2.0 / eps
    if source.numel() <= limit or actual.shape != expected.shape:
        return None
    exact = torch.histc(source.detach().to(torch.float64), *sample.args, **sample.kwargs)
    actual_counts, expected_counts = actual.detach().to(torch.float64), expected.detach().to(torch.float64)
    largest_count = torch.maximum(exact * (1 + eps), expected_counts)
    is_unspecified = (expected_counts >= limit) & (actual_counts >= limit) & (actual_counts <= largest_count)
    if not bool(is_unspecified.any()):
        return None
    return [
        Equation(
            "the result", torch.where(is_unspecified, expected.to(actual.dtype), actual), expected, exact=True
        )
    ]
