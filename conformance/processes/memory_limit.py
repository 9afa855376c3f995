"""How much memory a worker may take: one whose backend leaks is replaced before the system ends it.

The kernel would choose what to kill when memory runs out, and may choose the runner.
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
    """Bytes for each of some workers, of what the machine or its container has."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # There may be no container, or one without a limit ("max").
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(_CGROUP.read_text()))
    return max(LEAST, int(total * _PART / workers))


def excessive() -> bool:
    """Whether this process has more memory in use than it may; never where that cannot be seen."""
    limit = os.environ.get(VARIABLE)
    if limit is None or not _STATM.is_file():
        return False
    resident = int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident > int(limit)
