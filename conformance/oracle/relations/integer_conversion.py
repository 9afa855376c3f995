"""The promise of conversions to integers.

torch.Tensor.to: a floating-point value is truncated; if the result does not fit into the integer type, the
behaviour is undefined and may differ between platforms. One saturates, another wraps.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from conformance.oracle.relations.relation import Claim
from conformance.samples.operators import Sample


def to_integer(actual: torch.Tensor, expected: torch.Tensor, sample: Sample) -> Iterable[Claim] | None:
    """Elements that fit, truncated; None if all fit, or if the input has integers or booleans."""
    source = sample.input
    if not isinstance(source, torch.Tensor) or not (source.is_floating_point() or source.is_complex()):
        return None
    fits = _fits(source.detach(), expected.dtype)
    if bool(fits.all()):
        return None
    return [Claim("the converted values that fit", actual[fits], expected[fits], exact=True)]


def _fits(source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    real = source.real if source.is_complex() else source
    # Both bounds are powers of two (or zero), which every floating dtype that reaches them holds exactly.
    limits = torch.iinfo(dtype)
    whole = real.resolve_neg().to(torch.float64).trunc()
    return (whole >= float(limits.min)) & (whole < float(limits.max + 1))
