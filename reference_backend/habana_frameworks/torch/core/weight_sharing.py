"""Keep tied weights tied when a model moves to hpu.

In lazy mode, the bridge for hardware wraps parameters for this purpose. Here, `torch.nn.Module.to` keeps one
parameter for all of its names, as for cuda, because hpu tensors can replace CPU tensors in a parameter.
Therefore nothing needs to be enabled, and the variables that `is_enabled` reads have no other effect.
"""

from __future__ import annotations

import os

_TRUE = frozenset({"on", "1", "yes", "true", "y"})
_VARIABLES = ("PT_HPU_WEIGHT_SHARING", "EXPERIMENTAL_WEIGHT_SHARING")


def is_enabled() -> bool:
    """Return whether ``PT_HPU_WEIGHT_SHARING`` and ``EXPERIMENTAL_WEIGHT_SHARING`` are on (default: on)."""
    return all(os.environ.get(name, "1").lower() in _TRUE for name in _VARIABLES)
