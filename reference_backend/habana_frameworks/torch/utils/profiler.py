"""A profile of the device that the program starts and stops, in files of its process.

The files are those of ``HABANA_PROFILE=1``: Chrome traces in the folder that ``HABANA_PROF_CONFIG`` names, or
in the current one. Their fields are the simulator's own.
"""

from __future__ import annotations

from pathlib import Path

from habana_frameworks.torch.internal.process_trace import PROFILE


def _setup_profiler() -> None:
    """Read the configuration now, rather than at the first start."""
    PROFILE.set_up()


def _start_profiler() -> None:
    """Start to record what the device does."""
    PROFILE.start()


def _stop_profiler() -> list[Path]:
    """Wait for the device, stop, and write the files.

    Returns:
        The files that were written; none if nothing was started.
    """
    return PROFILE.stop()
