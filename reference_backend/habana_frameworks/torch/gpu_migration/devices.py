"""Map cuda devices and their names to hpu."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def mapped(value: Any) -> Any:
    """Return hpu for a cuda device or its name, with the same index; any other value unchanged."""
    if isinstance(value, str):
        if value == "cuda" or value.startswith("cuda:"):
            return "hpu" + value[len("cuda") :]
    elif isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("hpu") if value.index is None else torch.device("hpu", value.index)
    return value


def migrating(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls the original with hpu for every cuda argument."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return original(*map(mapped, args), **{name: mapped(value) for name, value in kwargs.items()})

    return call
