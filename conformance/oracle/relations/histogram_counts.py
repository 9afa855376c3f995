"""The promise of counts in a floating-point dtype.

A float that counts ones stops at 2 to the number of its digits: 256 in bfloat16, 2,048 in float16. histc
counts in the dtype of its input, so that a bin with more elements holds that limit, the sum of limits of
several threads, or the count of a device that counts in another way. All of them are right.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from conformance.oracle.relations.relation import Claim
from conformance.samples.operators import Sample


def histc(actual: torch.Tensor, expected: torch.Tensor, sample: Sample) -> Iterable[Claim] | None:
    """The bins; if one has reached the limit, any count up to the exact one is right. None if none has."""
    source = sample.input
    if not isinstance(source, torch.Tensor) or not source.is_floating_point():
        return None
    eps = torch.finfo(source.dtype).eps
    limit = 2.0 / eps
    if source.numel() <= limit or actual.shape != expected.shape:
        return None
    exact = torch.histc(source.detach().to(torch.float64), *sample.args, **sample.kwargs)
    found, due = actual.detach().to(torch.float64), expected.detach().to(torch.float64)
    most = torch.maximum(exact * (1 + eps), due)
    free = (due >= limit) & (found >= limit) & (found <= most)
    if not bool(free.any()):
        return None
    return [Claim("the result", torch.where(free, expected.to(actual.dtype), actual), expected, exact=True)]
