"""The functions of `utils.debug`, under the name of a C++ extension of the Intel Gaudi bridge."""

from __future__ import annotations

from typing import Any

from . import debug


def __getattr__(name: str) -> Any:
    """Return the function of `utils.debug` with this name.

    Raises:
        AttributeError: a function with this name does not exist.
    """
    function = getattr(debug, name, None)
    if function is None:
        raise AttributeError(f"{__name__} contains the functions of utils.debug, but not {name!r}")
    return function
