"""Convert device arguments to an index."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch

#: Device types that an argument may have; `habana_frameworks.torch.gpu_migration` adds cuda.
_DEVICE_TYPES = {DEVICE_TYPE}


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of an hpu device.

    Args:
        device: a `torch.device`, a string such as ``"hpu:0"``, an integer, or None.
        optional: for None and for a device without index, return the current device, 0.
        allow_cpu: return -1 for a cpu device.

    Raises:
        ValueError: the device has another type, or has no index although `optional` is false.
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


def _checked_device_id(device: Any) -> int:
    """Return the index of a device of this node; None denotes the current device.

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
