"""New memory with known bytes, and memory that calls keep."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
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


#: The parameter of glibc's ``mallopt`` that gives new memory the complement of a byte (mallopt(3)).
_M_PERTURB = -6
#: A small, a middling and a large block, in bytes.
_PROBES = (8, 4096, 1 << 20)


@contextlib.contextmanager
def host_memory_holding(filler: int, sizes: Iterable[int]) -> Iterator[None]:
    """Let what the host allocates hold a byte (254 in place of 255).

    glibc writes it to all new memory. Any other allocator is left freed blocks of ``sizes`` and of ``SMALL``,
    in bytes, that hold it; such an allocator may write notes of its own over the beginning of a block. The
    byte is that of the process: new memory of other threads holds it too, and two contexts must not overlap.
    """
    if not _glibc_fills():
        leave_behind([*sizes, *SMALL], torch.device("cpu"), filler)
        yield
        return
    with _filled(filler):
        yield


@contextlib.contextmanager
def _filled(filler: int) -> Iterator[None]:
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(_M_PERTURB, (filler ^ 255) or 1)  # 0 would write nothing
    # A large request sorts the freed blocks: glibc may hand an unsorted one out unfilled.
    torch.empty(1 << 16, dtype=torch.uint8)
    try:
        yield
    finally:
        mallopt(_M_PERTURB, _users_byte())


def _users_byte() -> int:
    """Return the byte that the user lets glibc write, in any notation that it takes; 0 if none."""
    try:
        return int(os.environ.get("MALLOC_PERTURB_", "0"), 0)
    except ValueError:
        return 0


@functools.cache
def _glibc_fills() -> bool:
    """Return whether the memory of tensors is glibc's, which fills it when asked."""
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"):
        return False
    with _filled(63):
        return all(bool((torch.empty(size, dtype=torch.uint8) == 63).all()) for size in _PROBES)


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
