"""Explicit loading of the device."""

from __future__ import annotations

from habana_frameworks.torch import hpu


def is_habana_available() -> bool:
    """Say whether there is a device."""
    return hpu.is_available()


def load_habana_profiler() -> None:
    """Load the profiler of the device. Does nothing more, since it is part of the core."""


def load_habana_module() -> None:
    """Load the device. Does nothing more, since importing this module loads it."""
