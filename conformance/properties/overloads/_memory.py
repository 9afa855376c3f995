"""New memory filled with known bytes, and detection of memory that calls retain."""

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
from conformance.properties.shared.execution import run_operator
from conformance.samples.operators import Sample
from conformance.target.target import Target

#: Fill bytes: 255 gives NaN in floats and -1 in integers, 63 a number near one half, 0 zeros.
FILLERS = (255, 63, 0)
#: Blocks of each size. Allocators cache several; glibc reserves seven small ones for unaligned memory, which
#: tensors do not use.
_BLOCKS_PER_SIZE = 10
#: The largest size, in bytes, of which glibc reserves blocks.
_SET_ASIDE = 1024
#: Sizes in bytes that kernels allocate for their own use.
KERNEL_ALLOCATION_SIZES = range(64, 1 << 16, 64)

#: Rounds of calls. A failure needs retained memory in each: a device may set up a table in the first.
_ROUNDS = 3
#: Calls per round.
_CALLS = 25


def leave_freed_memory(sizes: Iterable[int], device: torch.device, filler: int) -> None:
    """Write a byte to blocks of the given sizes in bytes and free them.

    The allocator returns these blocks next.
    """
    blocks = [
        torch.empty(size, dtype=torch.uint8, device=device) for size in sizes for _ in range(_BLOCKS_PER_SIZE)
    ]
    for block in blocks:
        block.fill_(filler)


#: The parameter of glibc's ``mallopt`` that fills new memory with the complement of a byte (mallopt(3)).
_M_PERTURB = -6
#: A small, a medium and a large block, in bytes.
_PROBES = (8, 4096, 1 << 20)


@contextlib.contextmanager
def host_memory_holding(filler: int, sizes: Iterable[int]) -> Iterator[None]:
    """Fill all memory that the host allocates inside the context with a byte (254 in place of 255).

    glibc writes the byte to all new memory. For any other allocator, the function frees blocks of ``sizes``
    and ``KERNEL_ALLOCATION_SIZES``, in bytes, that hold the byte. Such an allocator may overwrite the
    beginning of a block with its own data. The byte is a setting of the process: new memory of other threads
    holds it too, and two contexts must not overlap.
    """
    if not _glibc_fills():
        leave_freed_memory([*sizes, *KERNEL_ALLOCATION_SIZES], torch.device("cpu"), filler)
        yield
        return
    with _glibc_fills_with(filler):
        yield


@contextlib.contextmanager
def freed_memory_of_nan(sizes: Iterable[int]) -> Iterator[None]:
    """Free blocks of ``sizes`` and ``KERNEL_ALLOCATION_SIZES`` that are NaN in every floating dtype.

    The sizes are in bytes. A value that a kernel multiplies with zero shows only if it is NaN. glibc cannot
    fill new memory with NaN: it cannot write the byte 255.
    """
    counts = [
        (size, _BLOCKS_PER_SIZE if size <= _SET_ASIDE else 2) for size in (*sizes, *KERNEL_ALLOCATION_SIZES)
    ]
    blocks = [[torch.full((size,), 255, dtype=torch.uint8) for _ in range(count)] for size, count in counts]
    # One block of each size stays allocated: adjacent free blocks are merged, and a free block at the end of
    # the heap is returned to the system.
    retained = [blocks_of_size[-1] for blocks_of_size in blocks]
    del blocks
    yield
    del retained


@contextlib.contextmanager
def _glibc_fills_with(filler: int) -> Iterator[None]:
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(_M_PERTURB, (filler ^ 255) or 1)  # the value 0 would turn filling off
    # A large request sorts the freed blocks: glibc may return an unsorted block unfilled.
    torch.empty(1 << 16, dtype=torch.uint8)
    try:
        yield
    finally:
        mallopt(_M_PERTURB, _users_byte())


def _users_byte() -> int:
    """Return the byte that the user set in ``MALLOC_PERTURB_``, in any notation of Python's ``int``.

    The result is 0 if it is not set.
    """
    try:
        return int(os.environ.get("MALLOC_PERTURB_", "0"), 0)
    except ValueError:
        return 0


@functools.cache
def _glibc_fills() -> bool:
    """Return whether tensors use memory from glibc and glibc fills it on request."""
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"):
        return False
    with _glibc_fills_with(63):
        return all(bool((torch.empty(size, dtype=torch.uint8) == 63).all()) for size in _PROBES)


class RetainedMemory:
    """Counter of the device memory that rounds of calls leave allocated, if the target counts its memory.

    Memory that is retained less often than once in a round is not detected.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._allocated = memory.allocated_bytes_counter(target)
        self._counts: list[int] = []

    def count(self) -> None:
        """Record the allocated bytes after a round, once the device's work is done.

        Raise only errors of that work.
        """
        if self._allocated is None:
            return
        self._target.synchronize()
        counted = attempt(self._allocated)
        if counted.ok:
            self._counts.append(counted.value)
        else:  # other properties check the device's statistics
            self._allocated = None
            self._counts.clear()

    def check(self, recorder: Recorder, calls: str, sample: int) -> None:
        """Check that at least one round retained nothing; ``calls`` describes the calls of a round."""
        if not self._counts:
            return
        retained = min(after - before for before, after in itertools.pairwise(self._counts))
        text = f"{calls} leave at least {retained} bytes of device memory allocated, in every round."
        fact(recorder, retained <= 0, Kind.STATE, text, sample=sample)


def check_no_memory_retained(
    target: Target, recorder: Recorder, op: Callable[..., Any], sample: Sample
) -> None:
    """Check that calls leave no device memory allocated, if the target counts its memory."""
    retained_memory = RetainedMemory(target)

    def calls(_: Any) -> None:
        for _ in range(_CALLS):
            sample.call(op)

    retained_memory.count()
    for _ in range(_ROUNDS):
        run_operator(target, calls, Sample(sample.index, None))
        retained_memory.count()
    retained_memory.check(recorder, f"{_CALLS} calls", sample.index)
