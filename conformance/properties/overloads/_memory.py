"""Freed memory with known bytes, which an allocator hands out again."""

from __future__ import annotations

from collections.abc import Iterable

import torch

#: Bytes of ones are NaN in floats and -1 in integers; 63 everywhere is a number near one half; then nothing.
FILLERS = (255, 63, 0)
#: Blocks of each size: allocators keep several, and glibc sets aside seven of a small size for memory without
#: alignment, which no tensor takes.
_BLOCKS = 10
#: Sizes in bytes of what kernels allocate for themselves.
SMALL = range(64, 1 << 16, 64)


def leave_behind(sizes: Iterable[int], device: torch.device, filler: int) -> None:
    """Write a byte to memory of some sizes in bytes, and free it: the allocator hands it out next."""
    blocks = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes for _ in range(_BLOCKS)]
    for block in blocks:
        block.fill_(filler)
