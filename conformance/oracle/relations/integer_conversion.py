"""The relation of conversions to integers.

torch.Tensor.to truncates a floating-point value. If the result does not fit into the integer dtype, the
behaviour is undefined: one platform saturates and another wraps. The relation therefore compares only the
elements that fit.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from conformance.oracle.relations.relation import Equation
from conformance.samples.operators import Sample


def integer_conversion_equations(
    actual: torch.Tensor, expected: torch.Tensor, sample: Sample
) -> Iterable[Equation] | None:
    """Return the equation of the elements that fit into the integer dtype.

    Return None if all elements fit, or if the input is not floating-point or complex.
    """
    source = sample.input
    if not isinstance(source, torch.Tensor) or not (source.is_floating_point() or source.is_complex()):
        return None
    fits = _fits_in_integer_dtype(source.detach(), expected.dtype)
    if bool(fits.all()):
        return None
    return [Equation("the converted values that fit", actual[fits], expected[fits], exact=True)]


def _fits_in_integer_dtype(source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    real = source.real if source.is_complex() else source
    # Both bounds, ``limits.min`` and ``limits.max + 1``, are powers of two or zero. float64 therefore
    # represents them exactly.
    limits = torch.iinfo(dtype)
    whole = real.resolve_neg().to(torch.float64).trunc()
    return (whole >= float(limits.min)) & (whole < float(limits.max + 1))
