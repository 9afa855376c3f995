"""The memory limit of a worker: a worker whose backend leaks is replaced before the system kills it.

When memory runs out, the kernel chooses a process to kill, and it may choose the runner.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: Bytes that a worker may have in use after a case; set by the runner for its workers.
VARIABLE = "CONFORMANCE_WORKER_MEMORY"

#: No worker is replaced below this: torch, its databases and a few cached samples take about 1 GiB.
LEAST = 3 << 30

#: The part of the machine's memory that all workers together may take.
_PART = 0.7

_STATM = Path("/proc/self/statm")
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def share(workers: int) -> int:
    """Return the number of bytes that each of ``workers`` processes may use.

    The processes share the memory of the machine or of its container.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # There may be no container, or one without a limit ("max").
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(_CGROUP.read_text()))
    return max(LEAST, int(total * _PART / workers))


def excessive() -> bool:
    """Return whether this process uses more memory than its limit; False if that cannot be determined."""
    limit = os.environ.get(VARIABLE)
    if limit is None or not _STATM.is_file():
        return False
    resident = int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident > int(limit)
