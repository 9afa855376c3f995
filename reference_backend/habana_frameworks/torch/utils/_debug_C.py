"""The functions of `utils.debug`, under the name of the extension that contains them on hardware."""

from __future__ import annotations

from typing import Any

from . import debug


def __getattr__(name: str) -> Any:
    """Return a function of `utils.debug`.

    Raises:
        AttributeError: a function with this name does not exist.
    """
    function = getattr(debug, name, None)
    if function is None:
        raise AttributeError(f"{__name__} contains the functions of utils.debug, but not {name!r}")
    return function
