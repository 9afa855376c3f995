"""Start, stop and flush.

What is recorded is what `torch.profiler` shows of the device; nothing of the host is. The files are the
simulator's own: ``low_overhead_profile_PID_N.json``, Chrome traces, in ``HABANA_LOGS`` or the current folder.
``PT_HPU_ENABLE_LOP_TRACES_COLLECTION`` records the whole process into one; with
``PT_HPU_ENABLE_LOP_METRICS_COLLECTION`` it leaves ``low_overhead_metrics_PID.json``: calls, microseconds and
bytes by name.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import warnings
from pathlib import Path

from habana_frameworks.torch import hpu
from habana_frameworks.torch.internal.settings import bridge_config
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
    traces, _kept[:] = list(_kept), []
    return [path for trace in traces for path in write_or_warn(trace, [_path()])]


def collect_if_requested() -> None:
    """Record the whole process if a flag asks for its trace or its metrics."""
    traces = bool(bridge_config.value_of("PT_HPU_ENABLE_LOP_TRACES_COLLECTION"))
    metrics = bool(bridge_config.value_of("PT_HPU_ENABLE_LOP_METRICS_COLLECTION"))
    if traces or metrics:
        atexit.register(_write_collected, Recording(), traces, metrics)


def _write_collected(recording: Recording, traces: bool, metrics: bool) -> None:
    if not recording.is_own:  # a forked child's
        return
    hpu._finish_work()
    trace = recording.finish()
    if metrics:
        _write_metrics(trace)
    if traces:
        write_or_warn(trace, [_path()])


def _path() -> Path:
    folder = Path(os.environ.get("HABANA_LOGS", "") or ".")
    return folder / f"low_overhead_profile_{os.getpid()}_{next(_numbers)}.json"


def _write_metrics(trace: Trace) -> None:
    totals: dict[str, dict[str, float]] = {}
    if trace.dropped:
        totals["rows that were dropped"] = {"calls": trace.dropped, "microseconds": 0.0, "bytes": 0}
    for row in trace.rows:
        total = totals.setdefault(row.name, {"calls": 0, "microseconds": 0.0, "bytes": 0})
        total["calls"] += 1
        total["microseconds"] += (row.end - row.start) / 1000
        total["bytes"] += row.bytes or 0
    path = Path(os.environ.get("HABANA_LOGS", "") or ".") / f"low_overhead_metrics_{os.getpid()}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(totals, indent=1) + "\n")
    except OSError as error:
        warnings.warn(
            f"the metrics of the device cannot be written to {path} ({error}): set HABANA_LOGS to a folder "
            "that can be written to",
            RuntimeWarning,
            stacklevel=2,
        )
