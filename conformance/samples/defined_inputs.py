"""Select inputs from torch's test databases whose results are defined on every device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

#: Operators whose result for NaN is unspecified. For sign and sgn, documentation does not define a result.
#: For the others, the documented formula (such as ``x if x > threshold else value``) gives a different result
#: than the CPU.
NAN_IS_UNSPECIFIED = frozenset({"sign", "sgn", "hypot", "threshold", "hardshrink"})


#: Operators that normalise each channel by the mean and the variance of its elements.
_CHANNEL_NORMALISATIONS = (
    *("batch_norm", "instance_norm", "native_batch_norm", "_native_batch_norm_legit"),
    "_batch_norm_with_update",
)


def with_documented_results(operator: str, sample_inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the SampleInputs of an operator whose results are documented.

    For operators of :data:`NAN_IS_UNSPECIFIED`, NaN is replaced by 1. For linalg.lstsq, inputs with a
    ``driver`` that only the CPU supports are omitted (see the documentation of torch.linalg.lstsq). Batches
    of two elements per channel in 16 bits are omitted, if they are normalised: the exact result is 1 and -1,
    whatever the elements are, and a mean that is rounded to 16 bits can lie outside the two elements.
    """
    if operator.removeprefix("nn.functional.").startswith(_CHANNEL_NORMALISATIONS):
        return [inputs for inputs in sample_inputs if not _has_two_elements_per_channel_in_16_bits(inputs)]
    if operator.startswith("linalg.lstsq"):
        return [
            sample_input
            for sample_input in sample_inputs
            if sample_input.kwargs.get("driver") in (None, "gels")
        ]
    if operator.removeprefix("nn.functional.") in NAN_IS_UNSPECIFIED:
        return [sample_input.transform(_without_nan) for sample_input in sample_inputs]
    return sample_inputs


def _has_two_elements_per_channel_in_16_bits(sample_input: Any) -> bool:
    tensor = sample_input.input
    return bool(
        tensor.dim() > 1
        and tensor.dtype in (torch.float16, torch.bfloat16)
        and tensor.numel() == 2 * tensor.shape[1]
    )


def _without_nan(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or not bool(leaf.isnan().any()):
        return leaf
    return torch.where(leaf.isnan(), torch.ones_like(leaf), leaf).requires_grad_(leaf.requires_grad)
