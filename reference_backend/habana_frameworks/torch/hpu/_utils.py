"""Convert device arguments to device indices."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch

#: Device types that a device argument may have. `habana_frameworks.torch.gpu_migration` adds cuda.
_DEVICE_TYPES = {DEVICE_TYPE}


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of an hpu device.

    Args:
        device: a `torch.device`, a string such as ``"hpu:0"``, an integer, or None.
        optional: accept None and devices without an index, and return 0, the current device, for them.
        allow_cpu: accept a cpu device, and return -1 for it.

    Raises:
        ValueError: the device has another type; or it has no index, and `optional` is false.
    """
    if isinstance(device, str):
        device = torch.device(device)
    index = None
    if isinstance(device, torch.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type not in _DEVICE_TYPES:
            expected = f"{DEVICE_TYPE} or cpu" if allow_cpu else DEVICE_TYPE
            raise ValueError(f"Expected a {expected} device, but got: {device}")
        index = device.index
    elif isinstance(device, int):
        index = device
    elif device is not None:
        raise ValueError(
            f"Expected a {DEVICE_TYPE} device, but got: {device!r} of type {type(device).__name__}"
        )
    if index is not None:
        return index
    if optional:
        return 0
    raise ValueError(f"Expected a {DEVICE_TYPE} device with an index or an integer, but got: {device}")


def _require_own_device_index(device: Any) -> int:
    """Return the index of a device of this process, by default of the current device.

    Raises:
        AssertionError: the device does not exist.
        ValueError: as for `_get_device_index`.
    """
    index = _get_device_index(device, optional=True)
    count = _C.device_count()
    if not 0 <= index < count:
        raise AssertionError(
            f"Invalid device id {index}: the devices of this process are {DEVICE_TYPE}:0 to "
            f"{DEVICE_TYPE}:{count - 1}"
        )
    return index
