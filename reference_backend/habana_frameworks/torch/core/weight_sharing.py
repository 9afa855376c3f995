"""Tied weights stay tied when a model moves to hpu.

The bridge for hardware wraps parameters for that in lazy mode. Here `torch.nn.Module.to` keeps one parameter
for all of its names, as it does for cuda: hpu is a device of torch's own, whose tensors take the place of the
CPU's in a parameter. So there is nothing to switch on, and the two variables have no effect.
"""

from __future__ import annotations

import os

_TRUE = frozenset({"on", "1", "yes", "true", "y"})
_VARIABLES = ("PT_HPU_WEIGHT_SHARING", "EXPERIMENTAL_WEIGHT_SHARING")


def is_enabled() -> bool:
    """Say whether both variables are on, as they are when unset."""
    return all(os.environ.get(name, "1").lower() in _TRUE for name in _VARIABLES)
