"""Record a trace of the device between two calls, and write it to files of the process.

The files are as for ``HABANA_PROFILE=1``: Chrome traces in the folder of ``HABANA_PROF_CONFIG``, or in the
current folder. Their fields are the simulator's own.
"""

from __future__ import annotations

from pathlib import Path

from habana_frameworks.torch.internal.process_trace import RECORDER


def _setup_profiler() -> None:
    """Read the configuration now, instead of at the first start."""
    RECORDER.configured_files()


def _start_profiler() -> None:
    """Start recording the work of the device."""
    RECORDER.start()


def _stop_profiler() -> list[Path]:
    """Wait for the device, stop recording, and write the files.

    Returns:
        The written files; an empty list if no recording was started.
    """
    return RECORDER.stop()
