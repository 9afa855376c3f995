"""Older names of `utils.profiler`."""

from __future__ import annotations

import warnings

from .utils import profiler


class ProfilerApi:
    """A deprecated form of `utils.profiler`; `torch.profiler` shows more. Calls give a `FutureWarning`."""

    @staticmethod
    def setup() -> None:
        """As `utils.profiler._setup_profiler`."""
        _warn()
        profiler._setup_profiler()

    @staticmethod
    def start() -> None:
        """As `utils.profiler._start_profiler`."""
        _warn()
        profiler._start_profiler()

    @staticmethod
    def stop() -> None:
        """As `utils.profiler._stop_profiler`."""
        _warn()
        profiler._stop_profiler()


def _warn() -> None:
    warnings.warn("ProfilerApi is deprecated: use torch.profiler", FutureWarning, stacklevel=3)
