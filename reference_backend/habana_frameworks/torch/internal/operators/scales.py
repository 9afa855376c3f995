"""Scales of quantized values: numbers, lists of numbers, or tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch

#: What a value may be scaled by; None for 1.
Scale: TypeAlias = torch.Tensor | float | Sequence[float] | None


def times(
    values: torch.Tensor, scale: Scale, shape: Sequence[int] | None = None, dim: int | None = None
) -> torch.Tensor:
    """Multiply float32 values by a scale.

    Args:
        values: float32.
        scale: a number, a list of numbers, a tensor that broadcasts, or None.
        shape: the shape that a list or a tensor of scales gets first.
        dim: the dimension of ``values`` that a list or a vector of scales belongs to, if there is no shape.

    Raises:
        RuntimeError: the shape has another number of elements than the scale.
    """
    if scale is None:
        return values
    if isinstance(scale, (int, float)):
        return values * scale
    if not isinstance(scale, torch.Tensor):
        scale = torch.tensor(list(scale), dtype=torch.float32, device=values.device)
    scale = scale.to(torch.float32)
    if shape is not None:
        if math.prod(shape) != scale.numel():
            raise RuntimeError(
                f"the scale has {scale.numel()} elements and scale_shape {list(shape)} asks for "
                f"{math.prod(shape)}: give as many"
            )
        scale = scale.reshape(list(shape))
    elif scale.numel() == 1:
        scale = scale.reshape(())
    elif dim is not None and scale.dim() == 1:
        scale = scale.reshape([-1 if place == dim % values.dim() else 1 for place in range(values.dim())])
    return values * scale
