"""Deprecated names of `utils.profiler`."""

from __future__ import annotations

import warnings

from .utils import profiler


class ProfilerApi:
    """Deprecated form of `utils.profiler`; calls give a `FutureWarning`. Use `torch.profiler`."""

    @staticmethod
    def setup() -> None:
        """Call `utils.profiler._setup_profiler`."""
        _warn()
        profiler._setup_profiler()

    @staticmethod
    def start() -> None:
        """Call `utils.profiler._start_profiler`."""
        _warn()
        profiler._start_profiler()

    @staticmethod
    def stop() -> None:
        """Call `utils.profiler._stop_profiler`."""
        _warn()
        profiler._stop_profiler()


def _warn() -> None:
    warnings.warn("ProfilerApi is deprecated: use torch.profiler", FutureWarning, stacklevel=3)
