"""Explicit loading of the device."""

from __future__ import annotations

from habana_frameworks.torch import hpu


def is_habana_available() -> bool:
    """Return whether a device exists."""
    return hpu.is_available()


def load_habana_profiler() -> None:
    """Do nothing: the profiler of the device is part of the core, which is already loaded."""


def load_habana_module() -> None:
    """Do nothing: importing this module has already loaded the device."""
