"""Replace a function of a module or class by a wrapper."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any


def replace_function(
    owner: ModuleType | type, name: str, make_replacement: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Replace ``owner.name`` by ``make_replacement(original)``.

    The replacement gets the name, docstring and signature of the original.

    Args:
        owner: module or class that has the function.
        name: name of the function in `owner`.
        make_replacement: receives the original and returns the replacement.

    Raises:
        AttributeError: `owner` does not have the function.
    """
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make_replacement(original)))
