"""The memory limit of a worker. The runner replaces a worker that exceeds the limit, because a backend may
leak memory.

Without a limit the machine would run out of memory, and the kernel might kill the runner.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: Environment variable with the number of bytes that a worker may use after a case. The runner sets it.
VARIABLE = "CONFORMANCE_WORKER_MEMORY"

#: The smallest memory limit of a worker, in bytes. torch, its databases and a few cached samples take about 1
#: GiB.
LEAST = 3 << 30

#: The share of the machine's memory that all workers together may use.
_PART = 0.7
#: The additional share of the memory for workers that only wait, and the bytes that one such worker uses.
_WAITING_PART, _WAITING_BYTES = 0.2, 1 << 30

_STATM = Path("/proc/self/statm")
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def memory_per_worker(workers: int) -> int:
    """Return the number of bytes that each of ``workers`` processes may use.

    The processes share the memory of the machine or of its container.
    """
    return max(LEAST, int(_total_memory() * _PART / workers))


def max_waiting_workers() -> int:
    """Return the number of waiting workers that fit into memory in addition to the running workers."""
    return int(_total_memory() * _WAITING_PART / _WAITING_BYTES)


def _total_memory() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # The file does not exist outside a container, and contains "max" in a container without a limit.
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(_CGROUP.read_text()))
    return total


def exceeds_memory_limit() -> bool:
    """Return whether this process uses more memory than its limit; False if the use is unknown."""
    limit = os.environ.get(VARIABLE)
    if limit is None or not _STATM.is_file():
        return False
    resident = int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident > int(limit)
