"""The functions of `utils.debug` by the name of the extension that holds them on hardware."""

from __future__ import annotations

from typing import Any

from . import debug


def __getattr__(name: str) -> Any:
    """Return a function of `utils.debug`.

    Raises:
        AttributeError: there is no function of that name.
    """
    found = getattr(debug, name, None)
    if found is None:
        raise AttributeError(f"{__name__} holds the functions of utils.debug, and {name!r} is not one")
    return found
