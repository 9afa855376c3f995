"""Inputs of the databases that documentation gives a meaning to on every device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

#: What they give for NaN is written nowhere (sign, sgn), or is another number by their formulas than the
#: CPU's (x if x > threshold, else value; the root of a sum of squares).
NAN_IS_FREE = frozenset({"sign", "sgn", "hypot", "threshold", "hardshrink"})


def documented(operator: str, made: Sequence[Any]) -> Sequence[Any]:
    """Return an operator's SampleInputs without what a device is free in: NaN of :data:`NAN_IS_FREE` becomes
    1, and drivers of lstsq that only the CPU has are left out (torch.linalg.lstsq).
    """
    if operator.startswith("linalg.lstsq"):
        return [one for one in made if one.kwargs.get("driver") in (None, "gels")]
    if operator.removeprefix("nn.functional.") in NAN_IS_FREE:
        return [one.transform(_without_nan) for one in made]
    return made


def _without_nan(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or not bool(leaf.isnan().any()):
        return leaf
    return torch.where(leaf.isnan(), torch.ones_like(leaf), leaf).requires_grad_(leaf.requires_grad)
