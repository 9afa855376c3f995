"""The operators of ``torch.ops.hpu`` by the name of the extension that holds them on hardware."""

from __future__ import annotations

from typing import Any

import torch


def __getattr__(name: str) -> Any:
    """Return an operator.

    Raises:
        AttributeError: there is no operator of that name.
    """
    found = None if name.startswith("__") else getattr(torch.ops.hpu, name, None)
    if found is None:
        raise AttributeError(f"{__name__} holds the operators of torch.ops.hpu, and {name!r} is not one")
    return found
