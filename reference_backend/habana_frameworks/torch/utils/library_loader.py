"""Functions that load the device on Gaudi; here, importing the module has already loaded it."""

from __future__ import annotations

from habana_frameworks.torch import hpu


def is_habana_available() -> bool:
    """Return whether an hpu device is available."""
    return hpu.is_available()


def load_habana_profiler() -> None:
    """Do nothing: the device's profiler is part of the compiled core, which is already loaded."""


def load_habana_module() -> None:
    """Do nothing: importing this module has already loaded the device."""
