"""Replace a function of a module or class by a wrapper."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any


def replace(
    owner: ModuleType | type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Replace ``owner.name`` by ``make(original)``, with the original's name, docstring and signature.

    Args:
        owner: module or class that has the function.
        name: name of the function in `owner`.
        make: receives the original and returns the replacement.

    Raises:
        AttributeError: `owner` does not have the function.
    """
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make(original)))
