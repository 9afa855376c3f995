"""Allocate result buffers that are not dense in memory, and count writes to the gaps between their
elements.
"""

from __future__ import annotations

from typing import Any

import torch

DENSE = "dense"
#: The layouts of buffers: a transposed matrix, every second element of a larger tensor, and rows after a gap.
LAYOUTS = ("transposed", "every-second", "offset")
#: The value that the memory gaps of a buffer are filled with.
GAP_VALUE = 55.0


def result_buffer(like: torch.Tensor, shape: tuple[int, ...], layout: str) -> torch.Tensor:
    """Return a buffer with the dtype and device of ``like``. Its memory gaps are filled with ``GAP_VALUE``.

    A shape that cannot have the layout gets a dense buffer.
    """
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
    """Return how many gap elements of a :func:`result_buffer` were overwritten."""
    base = tensor._base
    if base is None or layout == "transposed":
        return 0
    rest = base[..., 1::2] if layout == "every-second" else base[:3]
    return int((rest.cpu() != GAP_VALUE).sum())
