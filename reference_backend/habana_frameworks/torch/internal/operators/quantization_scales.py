"""Scales of quantized values: numbers, lists of numbers, or tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch

#: Types of a scale; None means 1.
Scale: TypeAlias = torch.Tensor | float | Sequence[float] | None


def multiply_by_scale(
    values: torch.Tensor, scale: Scale, shape: Sequence[int] | None = None, dim: int | None = None
) -> torch.Tensor:
    """Multiply values by a scale, in the dtype of the values. The product of fp8 values is float32.

    Args:
        values: floating-point values.
        scale: a number, a list of numbers, a tensor that broadcasts, or None.
        shape: reshape a list or tensor of scales to this shape first.
        dim: the dimension of ``values`` to which a list or vector of scales belongs, if ``shape`` is None.

    Raises:
        RuntimeError: the number of scales does not fit the shape.
    """
    if scale is None:
        return values
    if values.dtype.itemsize == 1:
        values = values.float()
    if isinstance(scale, (int, float)):
        return values * scale
    if not isinstance(scale, torch.Tensor):
        scale = torch.tensor(list(scale), dtype=values.dtype, device=values.device)
    scale = scale.to(values.dtype)
    if shape is not None:
        if math.prod(shape) != scale.numel():
            raise RuntimeError(
                f"the scale has {scale.numel()} elements, but scale_shape {list(shape)} requires "
                f"{math.prod(shape)}"
            )
        scale = scale.reshape(list(shape))
    elif scale.numel() == 1:
        scale = scale.reshape(())
    elif dim is not None and scale.dim() == 1:
        scale = scale.reshape([-1 if index == dim % values.dim() else 1 for index in range(values.dim())])
    return values * scale
