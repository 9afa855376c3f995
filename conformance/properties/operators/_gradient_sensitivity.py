"""Movement of derivatives if their inputs move by one rounding: no device can be held to less."""

from __future__ import annotations

from collections.abc import Callable

import torch

from conformance.properties.operators import _gradients
from conformance.samples.operators import Sample

#: Of the directions in which inputs are moved.
_SEEDS = (5, 105)
#: A gradient that moves by more steps of its size for one step of the inputs jumps, as at a tie.
JUMP = 2.0**26


def move(sample: Sample, step: float, seed: int) -> None:
    """Multiply each element of the inputs of a private copy by 1 + step or 1 - step, in place."""
    with torch.no_grad():
        for place, tensor in enumerate(_gradients.inputs_of(sample)):
            tensor.mul_(1 + torch.sign(_gradients.noise(tensor.real, seed + place)) * step)


def spreads(
    base: _gradients.Derivative, moved: Callable[[int], _gradients.Derivative | None], step: float
) -> list[torch.Tensor | None]:
    """Return how far each gradient moves for a step of the inputs, in steps.

    ``moved`` gives the derivative at inputs that were moved with a seed, or None if there is none. What comes
    back are float64 tensors with the shapes of the gradients, or None; no element is below their mean.
    """
    found: list[torch.Tensor | None] = [None] * len(base.gradients)
    for seed in _SEEDS:
        derivative = moved(seed)
        if derivative is None or len(derivative.gradients) != len(base.gradients):
            continue
        for place, (gradient, at_base) in enumerate(zip(derivative.gradients, base.gradients, strict=False)):
            if gradient is None or at_base is None or gradient.shape != at_base.shape or not gradient.numel():
                continue
            distance = torch.nan_to_num(
                (gradient - at_base).abs().to(torch.float64) / step, posinf=0.0, neginf=0.0
            )
            distance = torch.maximum(distance, distance.mean())
            earlier = found[place]
            found[place] = distance if earlier is None else torch.maximum(distance, earlier)
    return found


def without_jumps(found: list[torch.Tensor | None], base: _gradients.Derivative) -> list[torch.Tensor | None]:
    """Return spreads as they are, but None for each gradient that jumps: another value there is wrong."""
    return [
        None
        if spread is None or gradient is None or float(spread.max()) > JUMP * _gradients.largest(gradient)
        else spread
        for spread, gradient in zip(found, base.gradients, strict=True)
    ]
