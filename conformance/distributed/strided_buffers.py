"""Result buffers that are not dense in memory, and the gaps between their elements."""

from __future__ import annotations

from typing import Any

import torch

DENSE = "dense"
#: A transposed matrix, every second element, rows after a gap.
LAYOUTS = ("transposed", "every-second", "offset")
#: The value of the memory gaps of a tensor.
GAP_VALUE = 55.0


def result_buffer(like: torch.Tensor, shape: tuple[int, ...], layout: str) -> torch.Tensor:
    """Return an uninitialized tensor with the dtype and device of ``like``, in memory of a layout."""
    options: dict[str, Any] = {"dtype": like.dtype, "device": like.device}
    if layout == "transposed" and len(shape) > 1:
        order = (*range(2, len(shape)), 1, 0)
        return torch.empty([shape[axis] for axis in order], **options).permute(
            *(order.index(axis) for axis in range(len(shape)))
        )
    if layout == "every-second" and shape:
        return torch.full((*shape[:-1], 2 * shape[-1]), GAP_VALUE, **options)[..., ::2]
    if layout == "offset" and shape:
        return torch.full((shape[0] + 3, *shape[1:]), GAP_VALUE, **options)[3:]
    return torch.empty(shape, **options)


def written_gap_elements(tensor: torch.Tensor, layout: str) -> int:
    """Return the number of gap elements of a tensor from :func:`result_buffer` that were written."""
    base = tensor._base
    if base is None or layout == "transposed":
        return 0
    rest = base[..., 1::2] if layout == "every-second" else base[:3]
    return int((rest.cpu() != GAP_VALUE).sum())
