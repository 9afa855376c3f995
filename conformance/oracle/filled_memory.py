"""Fill new host memory with known bytes, to detect results that depend on memory that nothing wrote."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Iterable, Iterator

import torch

#: Fill bytes: 255 gives NaN in floats and -1 in integers, 63 a number near one half, 0 zeros.
FILLERS = (255, 63, 0)
#: The number of blocks of each size that are filled and freed. It must exceed the number of freed blocks that
#: an allocator sets aside: glibc reserves seven small blocks of a size for unaligned requests, which tensors
#: do not make.
_BLOCKS_PER_SIZE = 10
#: glibc reserves freed blocks of at most this size in bytes for unaligned requests.
_SET_ASIDE = 1024
#: Sizes in bytes that kernels allocate for their own use.
KERNEL_ALLOCATION_SIZES = range(64, 1 << 16, 64)


def fill_and_free_memory(sizes: Iterable[int], device: torch.device, filler: int) -> None:
    """Allocate blocks of the given sizes in bytes, fill them with the byte ``filler``, and free them.

    The allocator then returns these blocks to the next requests of these sizes.
    """
    blocks = [
        torch.empty(size, dtype=torch.uint8, device=device) for size in sizes for _ in range(_BLOCKS_PER_SIZE)
    ]
    for block in blocks:
        block.fill_(filler)


#: The parameter of glibc's ``mallopt`` that fills new memory with the complement of a byte (mallopt(3)).
_M_PERTURB = -6
#: The sizes in bytes of the blocks with which :func:`_does_glibc_fill_memory` tests whether glibc fills
#: memory: small, medium and large.
_PROBES = (8, 4096, 1 << 20)


@contextlib.contextmanager
def fill_new_host_memory(filler: int, sizes: Iterable[int]) -> Iterator[None]:
    """Fill all memory that the host allocates inside this context with the byte ``filler`` (254 for 255).

    glibc writes the byte to all new memory. For any other allocator, the function frees blocks of ``sizes``
    and ``KERNEL_ALLOCATION_SIZES``, in bytes, that hold the byte. The allocator may then overwrite the
    beginning of a block with its own data. The byte is a setting of the process: new memory of other threads
    holds the byte too, and two contexts must not overlap.
    """
    if not _does_glibc_fill_memory():
        fill_and_free_memory([*sizes, *KERNEL_ALLOCATION_SIZES], torch.device("cpu"), filler)
        yield
        return
    with _set_glibc_fill_byte(filler):
        yield


@contextlib.contextmanager
def fill_freed_memory_with_nan(sizes: Iterable[int]) -> Iterator[None]:
    """Free blocks of ``sizes`` and ``KERNEL_ALLOCATION_SIZES`` that are NaN in every floating dtype.

    The sizes are in bytes. If a kernel multiplies an unwritten value by zero, the result reveals the value
    only if the value is NaN. glibc cannot fill new memory with NaN, because it cannot write the byte 255.
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
def _set_glibc_fill_byte(filler: int) -> Iterator[None]:
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(_M_PERTURB, (filler ^ 255) or 1)  # the value 0 would turn filling off
    # This large request makes glibc sort the freed blocks. Otherwise glibc could return an unsorted block
    # without filling it.
    torch.empty(1 << 16, dtype=torch.uint8)
    try:
        yield
    finally:
        mallopt(_M_PERTURB, _malloc_perturb_byte_of_user())


def _malloc_perturb_byte_of_user() -> int:
    """Return the byte that the user set in ``MALLOC_PERTURB_``, in any notation of Python's ``int``.

    The result is 0 if the variable is not set.
    """
    try:
        return int(os.environ.get("MALLOC_PERTURB_", "0"), 0)
    except ValueError:
        return 0


@functools.cache
def _does_glibc_fill_memory() -> bool:
    """Return whether tensors use memory from glibc and glibc fills it on request."""
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"):
        return False
    with _set_glibc_fill_byte(63):
        return all(bool((torch.empty(size, dtype=torch.uint8) == 63).all()) for size in _PROBES)
