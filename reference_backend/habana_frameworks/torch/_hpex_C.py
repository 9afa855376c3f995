"""The operators of ``torch.ops.hpu`` as attributes. Gaudi's software has an extension module of this name."""

from __future__ import annotations

from typing import Any

import torch


def __getattr__(name: str) -> Any:
    """Return an operator.

    Raises:
        AttributeError: an operator with this name does not exist.
    """
    operator = None if name.startswith("__") else getattr(torch.ops.hpu, name, None)
    if operator is None:
        raise AttributeError(f"{__name__} contains the operators of torch.ops.hpu, but not {name!r}")
    return operator
