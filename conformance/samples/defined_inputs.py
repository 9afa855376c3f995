"""Select inputs from torch's test databases whose results are defined by documentation on every device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

#: Operators whose result for NaN is unspecified. For sign and sgn, documentation does not define a result.
#: For the other operators, the documented formula (such as ``x if x > threshold else value``) gives a
#: different result than the CPU.
NAN_IS_UNSPECIFIED = frozenset({"sign", "sgn", "hypot", "threshold", "hardshrink"})


def inputs_with_documented_results(operator: str, sample_inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the SampleInputs of an operator whose results are documented.

    For operators of :data:`NAN_IS_UNSPECIFIED`, NaN is replaced by 1. For linalg.lstsq, inputs with a
    ``driver`` that only the CPU supports are omitted (see the documentation of torch.linalg.lstsq).
    """
    if operator.startswith("linalg.lstsq"):
        return [
            sample_input
            for sample_input in sample_inputs
            if sample_input.kwargs.get("driver") in (None, "gels")
        ]
    if operator.removeprefix("nn.functional.") in NAN_IS_UNSPECIFIED:
        return [sample_input.transform(_without_nan) for sample_input in sample_inputs]
    return sample_inputs


def _without_nan(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or not bool(leaf.isnan().any()):
        return leaf
    return torch.where(leaf.isnan(), torch.ones_like(leaf), leaf).requires_grad_(leaf.requires_grad)
