"""Measure the processor time of a process and its descendants. A waiting process uses no processor time."""

from __future__ import annotations

import os
from pathlib import Path

_PROCESSES = Path("/proc")
#: The positions of four times in ``/proc/PID/stat``, counted after the name of the program: user and system
#: time of the process, and user and system time of its ended children.
_TIMES = slice(11, 15)


def processor_seconds(pid: int) -> float | None:
    """Return the processor time in seconds of a process and all its descendants, including ended descendants.

    Return None if the process has ended, or if the system has no ``/proc`` that lists child processes.
    """
    try:
        ticks = _ticks(pid)
    except (OSError, ValueError):
        return None
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    folder = _PROCESSES / str(pid)
    # The program's name is in brackets and may contain brackets and spaces: split after the last bracket.
    ticks = sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[_TIMES]))
    for thread in (folder / "task").iterdir():
        for child in (thread / "children").read_text().split():
            try:
                ticks += _ticks(int(child))
            except FileNotFoundError:
                continue  # The child ended after the list of children was read.
    return ticks
