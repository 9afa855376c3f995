"""Loading the device on request."""

from __future__ import annotations

from habana_frameworks.torch import hpu


def is_habana_available() -> bool:
    """Say whether there is a device."""
    return hpu.is_available()


def load_habana_module() -> None:
    """Load the device. Importing this module has done it, so that nothing is left to do."""
