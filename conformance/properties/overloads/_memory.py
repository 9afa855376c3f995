"""Freed memory with known bytes, which an allocator hands out again, and memory that calls keep."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from conformance.checking.compare import fact
from conformance.checking.recorder import Recorder
from conformance.device import memory
from conformance.model.verdicts import Kind
from conformance.properties.operators._common import run
from conformance.samples.operators import Sample
from conformance.target.target import Target

#: Bytes of ones are NaN in floats and -1 in integers; 63 everywhere is a number near one half; then nothing.
FILLERS = (255, 63, 0)
#: Blocks of each size: allocators keep several, and glibc sets aside seven of a small size for memory without
#: alignment, which no tensor takes.
_BLOCKS = 10
#: Sizes in bytes of what kernels allocate for themselves.
SMALL = range(64, 1 << 16, 64)

#: Rounds that must all keep memory: a device may set up a table or a block of its allocator in one.
_ROUNDS = 3
#: Calls of a round.
_CALLS = 50


def leave_behind(sizes: Iterable[int], device: torch.device, filler: int) -> None:
    """Write a byte to memory of some sizes in bytes, and free it: the allocator hands it out next."""
    blocks = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes for _ in range(_BLOCKS)]
    for block in blocks:
        block.fill_(filler)


def keeps_no_memory(target: Target, recorder: Recorder, op: Callable[..., Any], given: Sample) -> None:
    """Check that calls leave no memory of the device allocated, if the target counts it."""
    allocated = memory.allocated(target)
    if allocated is None:
        return

    def calls(_: Any) -> None:
        for _ in range(_CALLS):
            given.call(op)

    counts = [allocated()]
    for _ in range(_ROUNDS):
        run(target, calls, Sample(given.index, None))
        counts.append(allocated())
    kept = min(after - before for before, after in itertools.pairwise(counts))
    text = f"every {_CALLS} calls have kept {kept} bytes of the device's memory or more."
    fact(recorder, kept <= 0, Kind.STATE, text, sample=given.index)
