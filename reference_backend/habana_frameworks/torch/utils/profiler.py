"""Record the work of the device between two calls, and write trace files.

As with ``HABANA_PROFILE=1``, the files are Chrome traces in the folder of ``HABANA_PROF_CONFIG`` or in the
current folder. The fields of the trace events are the simulator's own.
"""

from __future__ import annotations

from pathlib import Path

from habana_frameworks.torch.internal.process_trace import RECORDER


def _setup_profiler() -> None:
    """Read the profiler's configuration now, instead of when the first recording starts."""
    RECORDER.configured_files()


def _start_profiler() -> None:
    """Start recording the work of the device."""
    RECORDER.start()


def _stop_profiler() -> list[Path]:
    """Wait for the device, stop recording, and write the trace files.

    Returns:
        The paths of the written files; an empty list if no recording was started.
    """
    return RECORDER.stop()
