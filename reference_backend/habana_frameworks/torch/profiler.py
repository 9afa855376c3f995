"""The deprecated class `ProfilerApi`, an older interface of `utils.profiler`."""

from __future__ import annotations

import warnings

from .utils import profiler


class ProfilerApi:
    """Deprecated class form of `utils.profiler`: each call warns. Use `torch.profiler` instead."""

    @staticmethod
    def setup() -> None:
        """Read the profiler's configuration (`utils.profiler._setup_profiler`)."""
        _warn()
        profiler._setup_profiler()

    @staticmethod
    def start() -> None:
        """Start recording the device's work (`utils.profiler._start_profiler`)."""
        _warn()
        profiler._start_profiler()

    @staticmethod
    def stop() -> None:
        """Stop recording and write the trace files (`utils.profiler._stop_profiler`)."""
        _warn()
        profiler._stop_profiler()


def _warn() -> None:
    warnings.warn("ProfilerApi is deprecated: use torch.profiler", FutureWarning, stacklevel=3)
