"""Start, stop and flush.

What is recorded is what `torch.profiler` shows of the device; nothing of the host is. The files are the
simulator's own: ``low_overhead_profile_PID_N.json``, Chrome traces, in ``HABANA_LOGS`` or the current folder.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from habana_frameworks.torch import hpu
from habana_frameworks.torch.internal.traces import Recording, Trace, write_or_warn

_numbers = itertools.count()
_recording: Recording | None = None
_kept: list[Trace] = []


def start() -> None:
    """Start to record; if it records already, that goes on."""
    global _recording
    if _recording is None or not _recording.is_own:
        _recording = Recording()


def stop() -> None:
    """Wait for the device and stop; the rows are kept for `flush`. Without a start nothing happens."""
    global _recording
    recording, _recording = _recording, None
    if recording is not None and recording.is_own:
        hpu._finish_work()
        _kept.append(recording.finish())


def flush() -> list[Path]:
    """Write a file for each stop since the last flush.

    Returns:
        The files that were written.
    """
    folder = Path(os.environ.get("HABANA_LOGS", "") or ".")
    traces, _kept[:] = list(_kept), []
    written = []
    for trace in traces:
        path = folder / f"low_overhead_profile_{os.getpid()}_{next(_numbers)}.json"
        written += write_or_warn(trace, [path])
    return written
