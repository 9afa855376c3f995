"""Map cuda devices, and strings such as ``"cuda:0"``, to hpu."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def to_hpu(value: Any) -> Any:
    """Map a cuda device, or a string such as ``"cuda:0"``, to hpu with the same index.

    Any other value is returned unchanged.
    """
    if isinstance(value, str):
        if value == "cuda" or value.startswith("cuda:"):
            return "hpu" + value[len("cuda") :]
    elif isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("hpu") if value.index is None else torch.device("hpu", value.index)
    return value


def map_cuda_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper of a function that maps each cuda device among the arguments to hpu."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return original(*map(to_hpu, args), **{name: to_hpu(value) for name, value in kwargs.items()})

    return call
