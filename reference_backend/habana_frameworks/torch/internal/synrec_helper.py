"""Replacement of the recorder of the hardware's graph compiler, which a simulated device does not have."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Raise AttributeError for every name.

    Raises:
        AttributeError: always; the message names the replacement.
    """
    raise AttributeError(
        f"{__name__}.{name} would record calls of the hardware's graph compiler, which this device does not "
        "have. Use utils.debug.graph_dumps, which writes the graphs of this device."
    )
