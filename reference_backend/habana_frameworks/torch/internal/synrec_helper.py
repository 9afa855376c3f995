"""A stand-in for the recorder of the hardware's graph compiler, which a software device does not have."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Refuse every name.

    Raises:
        AttributeError: always; the message says which means there are instead.
    """
    raise AttributeError(
        f"{__name__}.{name} would record calls of the hardware's graph compiler, which this device does not "
        "have: utils.debug.graph_dumps writes its graphs"
    )
