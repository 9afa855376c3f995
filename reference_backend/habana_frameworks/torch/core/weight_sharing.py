"""Keep tied weights tied when a model moves to hpu.

In lazy mode, the Intel Gaudi bridge wraps parameters for this purpose. This backend does not need to: as on
cuda, `torch.nn.Module.to` moves the data inside the existing parameter, so that all its names still refer to
one parameter. The variables that `is_enabled` reads have no other effect.
"""

from __future__ import annotations

import os

_TRUE = frozenset({"on", "1", "yes", "true", "y"})
_VARIABLES = ("PT_HPU_WEIGHT_SHARING", "EXPERIMENTAL_WEIGHT_SHARING")


def is_enabled() -> bool:
    """Return whether ``PT_HPU_WEIGHT_SHARING`` and ``EXPERIMENTAL_WEIGHT_SHARING`` are on (default: on)."""
    return all(os.environ.get(name, "1").lower() in _TRUE for name in _VARIABLES)
