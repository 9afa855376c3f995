"""Tensors that are not one dense piece of memory, and the memory between their elements."""

from __future__ import annotations

from typing import Any

import torch

DENSE = "dense"
#: A transposed matrix, every second element, rows behind others.
LAYOUTS = ("transposed", "every-second", "offset")
#: The value of the memory beside the elements of a tensor.
BESIDE = 55.0


def room(like: torch.Tensor, shape: tuple[int, ...], layout: str) -> torch.Tensor:
    """Return a tensor whose elements nothing has written, with the dtype and device of another, in memory of
    a layout.
    """
    options: dict[str, Any] = {"dtype": like.dtype, "device": like.device}
    if layout == "transposed" and len(shape) > 1:
        order = (*range(2, len(shape)), 1, 0)
        return torch.empty([shape[axis] for axis in order], **options).permute(
            *(order.index(axis) for axis in range(len(shape)))
        )
    if layout == "every-second" and shape:
        return torch.full((*shape[:-1], 2 * shape[-1]), BESIDE, **options)[..., ::2]
    if layout == "offset" and shape:
        return torch.full((shape[0] + 3, *shape[1:]), BESIDE, **options)[3:]
    return torch.empty(shape, **options)


def written_beside(tensor: torch.Tensor, layout: str) -> int:
    """Return the number of elements beside those of a tensor from :func:`room` that were written."""
    base = tensor._base
    if base is None or layout == "transposed":
        return 0
    rest = base[..., 1::2] if layout == "every-second" else base[:3]
    return int((rest.cpu() != BESIDE).sum())
