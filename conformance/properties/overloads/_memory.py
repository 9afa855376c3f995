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

from conformance.device import memory
from conformance.framework.calls import attempt
from conformance.framework.compare import fact
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.shared.execution import run
from conformance.samples.operators import Sample
from conformance.target.target import Target

#: Bytes of ones are NaN in floats and -1 in integers; 63 everywhere is a number near one half; then nothing.
FILLERS = (255, 63, 0)
#: Blocks of each size: allocators keep several, and glibc sets aside seven of a small size for memory without
#: alignment, which no tensor takes.
_BLOCKS = 10
#: The largest of these small sizes, in bytes.
_SET_ASIDE = 1024
#: Sizes in bytes of what kernels allocate for themselves.
SMALL = range(64, 1 << 16, 64)

#: Rounds that must all keep memory: a device may set up a table or a block of its allocator in one.
_ROUNDS = 3
#: Calls of a round.
_CALLS = 25


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
def freed_memory_of_nan(sizes: Iterable[int]) -> Iterator[None]:
    """Leave freed blocks of ``sizes`` and of ``SMALL``, in bytes, that are NaN in every dtype of floats.

    What a kernel multiplies with zero shows in NaN alone, of which glibc has no byte to write to new memory.
    """
    counts = [(size, _BLOCKS if size <= _SET_ASIDE else 2) for size in (*sizes, *SMALL)]
    blocks = [[torch.full((size,), 255, dtype=torch.uint8) for _ in range(count)] for size, count in counts]
    # One of each size stays: what is free side by side becomes one block, and goes back to the system at the
    # end of the heap.
    held = [alike[-1] for alike in blocks]
    del blocks
    yield
    del held


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


class KeptMemory:
    """Bytes of the device's memory that rounds of calls leave allocated, if the target counts them.

    Memory that is kept less often than once in a round is not seen.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._allocated = memory.allocated_bytes_counter(target)
        self._counts: list[int] = []

    def count(self) -> None:
        """Count after a round, once the device's work is done; raises the errors of that work alone."""
        if self._allocated is None:
            return
        self._target.synchronize()
        counted = attempt(self._allocated)
        if counted.ok:
            self._counts.append(counted.value)
        else:  # others hold the device to its statistics
            self._allocated = None
            self._counts.clear()

    def check(self, recorder: Recorder, calls: str, sample: int) -> None:
        """Check that some round has kept nothing; ``calls`` are those of a round."""
        if not self._counts:
            return
        kept = min(after - before for before, after in itertools.pairwise(self._counts))
        text = f"{calls} have kept {kept} bytes of the device's memory or more, round after round."
        fact(recorder, kept <= 0, Kind.STATE, text, sample=sample)


def keeps_no_memory(target: Target, recorder: Recorder, op: Callable[..., Any], given: Sample) -> None:
    """Check that calls leave no memory of the device allocated, if the target counts it."""
    kept = KeptMemory(target)

    def calls(_: Any) -> None:
        for _ in range(_CALLS):
            given.call(op)

    kept.count()
    for _ in range(_ROUNDS):
        run(target, calls, Sample(given.index, None))
        kept.count()
    kept.check(recorder, f"{_CALLS} calls", given.index)
