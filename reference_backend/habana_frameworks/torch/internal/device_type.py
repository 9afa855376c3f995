"""The device type of this process: ``hpu``, or ``refdev`` if the core has the dispatch key PrivateUse1."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch._C._autograd import DeviceType

from . import core_builds, torch_build

#: The dispatch key of the device's kernels: ``HPU`` or ``PrivateUse1``.
DISPATCH_KEY = core_builds.dispatch_key()
#: The name of the device in strings such as ``hpu:0``, and of its module, such as ``torch.hpu``.
DEVICE_TYPE = torch_build.DEVICE_TYPES[DISPATCH_KEY]
#: The device type of hpu events in `torch.profiler`.
DEVICE_TYPE_IN_EVENTS = getattr(DeviceType, DISPATCH_KEY)
#: The device type as a number, as torch passes it between Python and C++.
DEVICE_TYPE_NUMBER = int(DEVICE_TYPE_IN_EVENTS)


def device_module() -> Any:
    """Return the module of the device, for example ``torch.hpu``."""
    return cast(Any, getattr(torch, DEVICE_TYPE))
