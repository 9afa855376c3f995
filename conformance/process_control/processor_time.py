"""The processor time of a process and its descendants. A process that waits uses none."""

from __future__ import annotations

import os
from pathlib import Path

_PROCESSES = Path("/proc")
#: The positions of four times in ``/proc/PID/stat``, counted after the name of the program: user and system
#: time of the process, and user and system time of its ended children.
_TIMES = slice(11, 15)


def processor_seconds(pid: int) -> float | None:
    """Return the processor time in seconds of a process and all its descendants, those that ended included.

    Return None if it cannot be determined: the process ended, or the system has no ``/proc`` that lists
    children.
    """
    try:
        ticks = _ticks(pid)
    except (OSError, ValueError):
        return None
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    folder = _PROCESSES / str(pid)
    # The name of the program stands in brackets and may contain brackets and spaces itself.
    ticks = sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[_TIMES]))
    for thread in (folder / "task").iterdir():
        for child in (thread / "children").read_text().split():
            try:
                ticks += _ticks(int(child))
            except FileNotFoundError:
                continue  # The child ended since its parent was read.
    return ticks
