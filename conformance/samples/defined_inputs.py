"""Select inputs from torch's test databases whose results are defined on every device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

#: Operators whose result for NaN is unspecified. For sign and sgn, documentation does not define a result.
#: For the others, the documented formula (such as ``x if x > threshold else value``) gives a different result
#: than the CPU.
NAN_IS_UNSPECIFIED = frozenset({"sign", "sgn", "hypot", "threshold", "hardshrink"})


#: Operators that normalise a channel by its elements in all instances of a batch, in training mode.
_BATCH_NORMALISATIONS = (
    "batch_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_batch_norm_with_update",
)


def with_documented_results(operator: str, sample_inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the SampleInputs of an operator whose results are documented.

    For operators of :data:`NAN_IS_UNSPECIFIED`, NaN is replaced by 1. For linalg.lstsq, inputs with a
    ``driver`` that only the CPU supports are omitted (see the documentation of torch.linalg.lstsq). For
    batch_norm and instance_norm in 16 bits, inputs that normalise two elements are omitted: the exact results
    are 1 and -1 for all of them, and a mean that is rounded to 16 bits can lie outside the two elements.
    """
    name = operator.removeprefix("nn.functional.")
    if name.startswith((*_BATCH_NORMALISATIONS, "instance_norm")):
        over_batch = name.startswith(_BATCH_NORMALISATIONS)
        return [inputs for inputs in sample_inputs if not _normalises_two_in_16_bits(inputs, over_batch)]
    if operator.startswith("linalg.lstsq"):
        return [
            sample_input
            for sample_input in sample_inputs
            if sample_input.kwargs.get("driver") in (None, "gels")
        ]
    if operator.removeprefix("nn.functional.") in NAN_IS_UNSPECIFIED:
        return [sample_input.transform(_without_nan) for sample_input in sample_inputs]
    return sample_inputs


def _normalises_two_in_16_bits(sample_input: Any, over_batch: bool) -> bool:
    tensor = sample_input.input
    if tensor.dim() < 2 or tensor.dtype not in (torch.float16, torch.bfloat16):
        return False
    count = math.prod(tensor.shape[2:])
    if not over_batch:
        return bool(count == 2)
    # batch_norm has the keyword ``training``; the native operators have it as their only bool.
    training = sample_input.kwargs.get("training", False) or any(value is True for value in sample_input.args)
    return bool(training and tensor.shape[0] * count == 2)


def _without_nan(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or not bool(leaf.isnan().any()):
        return leaf
    return torch.where(leaf.isnan(), torch.ones_like(leaf), leaf).requires_grad_(leaf.requires_grad)
