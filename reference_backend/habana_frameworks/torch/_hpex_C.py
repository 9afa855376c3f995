"""The operators of ``torch.ops.hpu`` as module attributes; a C++ extension of this name on Gaudi."""

from __future__ import annotations

from typing import Any

import torch


def __getattr__(name: str) -> Any:
    """Return the operator ``torch.ops.hpu.<name>``.

    Raises:
        AttributeError: an operator with this name does not exist.
    """
    operator = None if name.startswith("__") else getattr(torch.ops.hpu, name, None)
    if operator is None:
        raise AttributeError(f"{__name__} contains the operators of torch.ops.hpu, but not {name!r}")
    return operator
