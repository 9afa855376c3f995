"""The device type of this process: ``hpu``, or ``refdev`` if the core has the dispatch key PrivateUse1."""

from __future__ import annotations

from typing import Any, cast

import torch

from . import core_builds, torch_build

#: The dispatch key of the device's kernels: ``HPU`` or ``PrivateUse1``.
DISPATCH_KEY = core_builds.dispatch_key()
#: The name of the device in strings such as ``hpu:0``, and of its module, such as ``torch.hpu``.
DEVICE_TYPE = torch_build.DEVICE_TYPES[DISPATCH_KEY]


def device_module() -> Any:
    """Return the module of the device, for example ``torch.hpu``."""
    return cast(Any, getattr(torch, DEVICE_TYPE))
