"""Compute the sensitivity of derivatives: how far they move if the inputs move by one rounding.

A device is not required to be more accurate than this movement.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from conformance.properties.operators import _gradients
from conformance.samples.operators import Sample

#: Seeds of the directions in which inputs are moved.
_SEEDS = (5, 105)
#: The limit for jumps. A gradient jumps, for example at a tie, if its sensitivity is larger than this
#: multiple of its largest element.
JUMP = 2.0**26


def perturb_inputs(sample: Sample, step: float, seed: int) -> None:
    """Multiply each element of the sample's inputs by 1 + step or 1 - step, in place.

    The caller must pass a copy of a sample, because the tensors change.
    """
    with torch.no_grad():
        for index, tensor in enumerate(_gradients.differentiable_inputs(sample)):
            tensor.mul_(1 + torch.sign(_gradients.random_float64_like(tensor.real, seed + index)) * step)


def gradient_sensitivities(
    base: _gradients.Derivative, derivative_at: Callable[[int], _gradients.Derivative | None], step: float
) -> list[torch.Tensor | None]:
    """Return how far each gradient moves if the inputs move by ``step``, as a multiple of ``step``.

    ``derivative_at(seed)`` returns the derivative at inputs that are moved in the random direction of the
    seed, or None. The results are float64 tensors of the gradients' shapes, or None. Elements below the mean
    of their tensor are replaced by the mean.
    """
    sensitivities: list[torch.Tensor | None] = [None] * len(base.gradients)
    for seed in _SEEDS:
        derivative = derivative_at(seed)
        if derivative is None or len(derivative.gradients) != len(base.gradients):
            continue
        for index, (gradient, at_base) in enumerate(zip(derivative.gradients, base.gradients, strict=False)):
            if gradient is None or at_base is None or gradient.shape != at_base.shape or not gradient.numel():
                continue
            distance = torch.nan_to_num(
                (gradient - at_base).abs().to(torch.float64) / step, posinf=0.0, neginf=0.0
            )
            distance = torch.maximum(distance, distance.mean())
            earlier = sensitivities[index]
            sensitivities[index] = distance if earlier is None else torch.maximum(distance, earlier)
    return sensitivities


def without_jumps(
    sensitivities: list[torch.Tensor | None], base: _gradients.Derivative
) -> list[torch.Tensor | None]:
    """Return the sensitivities, with None for each gradient that jumps.

    The sensitivity of a gradient that jumps would allow any value, so the gradient is compared without it.
    """
    return [
        None
        if sensitivity is None
        or gradient is None
        or float(sensitivity.max()) > JUMP * _gradients.largest_magnitude(gradient)
        else sensitivity
        for sensitivity, gradient in zip(sensitivities, base.gradients, strict=True)
    ]
