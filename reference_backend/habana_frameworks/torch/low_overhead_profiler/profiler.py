"""Start, stop and flush the low-overhead profiler.

The profiler records the device's rows of a `torch.profiler` trace and no rows of the host. `flush` writes
Chrome traces to files ``low_overhead_profile_PID_N.json`` in ``HABANA_LOGS`` or the current folder. File
names and format are the simulator's own.

Two flags record the whole process. ``PT_HPU_ENABLE_LOP_TRACES_COLLECTION`` writes one such trace file.
``PT_HPU_ENABLE_LOP_METRICS_COLLECTION`` writes ``low_overhead_metrics_PID.json``, with the number of calls,
the microseconds and the bytes of each row name.
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
from habana_frameworks.torch.internal.traces import DeviceRecording, Trace, write_trace_or_warn

_numbers = itertools.count()
_recording: DeviceRecording | None = None
_finished_traces: list[Trace] = []


def start() -> None:
    """Start recording, unless a recording is already running."""
    global _recording
    if _recording is None or not _recording.is_started_by_this_process:
        _recording = DeviceRecording()


def stop() -> None:
    """Wait for the device, stop recording, and keep the trace for `flush`.

    Does nothing if no recording is running.
    """
    global _recording
    recording, _recording = _recording, None
    if recording is not None and recording.is_started_by_this_process:
        hpu._finish_work()
        _finished_traces.append(recording.finish())


def flush() -> list[Path]:
    """Write one trace file for each recording that was stopped since the last flush.

    Returns:
        The written files.
    """
    traces, _finished_traces[:] = list(_finished_traces), []
    return [path for trace in traces for path in write_trace_or_warn(trace, [_next_trace_path()])]


def record_process_if_requested() -> None:
    """Start recording the whole process if one of the two flags is set; files are written at exit."""
    traces = bool(bridge_config.value_of("PT_HPU_ENABLE_LOP_TRACES_COLLECTION"))
    metrics = bool(bridge_config.value_of("PT_HPU_ENABLE_LOP_METRICS_COLLECTION"))
    if traces or metrics:
        atexit.register(_write_collected, DeviceRecording(), traces, metrics)


def _write_collected(recording: DeviceRecording, traces: bool, metrics: bool) -> None:
    if not recording.is_started_by_this_process:  # the recording belongs to the parent process
        return
    hpu._finish_work()
    trace = recording.finish()
    if metrics:
        _write_metrics(trace)
    if traces:
        write_trace_or_warn(trace, [_next_trace_path()])


def _next_trace_path() -> Path:
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
            f"the metrics of the device could not be written to {path} ({error}). Set HABANA_LOGS to a "
            "writable folder.",
            RuntimeWarning,
            stacklevel=2,
        )
