"""Count, select and synchronise devices. A process has one device, and its index is 0."""

from __future__ import annotations

import os
from typing import Any

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.device_type import DEVICE_TYPE
from habana_frameworks.torch.internal.settings.visible_modules import (
    NODE_SIZE,
    is_own_device_index,
    own_module_id,
    visible_module_ids,
)

from ._utils import _get_device_index
from .initialization import _lazy_init, is_initialized

_count: int | None = None


def device_count() -> int:
    """Return the number of modules (Gaudi cards) that this process may choose from.

    The simulated node has eight modules; ``HABANA_VISIBLE_MODULES`` lists the visible modules. The first call
    reads the number, and later calls return the same number. This function does not acquire the device.
    """
    global _count
    if _count is None:
        _count = _C.device_count()
    return _count


def is_available() -> bool:
    """Return whether a device exists. This function never raises and does not acquire the device."""
    try:
        return device_count() > 0
    except Exception:
        return False


def current_device() -> int:
    """Return the index of the current device, which is always 0."""
    return 0


def set_device(device: Any) -> None:
    """Select the module (Gaudi card) of this process. Call this function before the first use of the device.

    Args:
        device: an index (integer, string or `torch.device`) into the modules of ``HABANA_VISIBLE_MODULES``,
            by default the modules 0 to 7. None and ``"hpu"`` mean the index 0.

    The function writes the id of the module to ``HLS_MODULE_ID``. If a launcher has already set this
    variable, the process has its module, and any index is accepted and ignored. The index of the selected
    device is always 0.

    Raises:
        AssertionError: the index is negative; or the process has no module yet and the index does not exist;
            or ``HLS_MODULE_ID`` is unset, the process has already used the device, and the index is neither
            0 nor ``LOCAL_RANK``.
        ValueError: `device` is not an hpu device.
    """
    index = _require_device_index(device)
    if index < 0:
        raise AssertionError(f"Invalid device id {index}: indices start at 0, so use 0 or {DEVICE_TYPE!r}")
    modules = visible_module_ids()
    if own_module_id() is not None:
        return
    if index >= len(modules):
        raise AssertionError(
            f"Invalid device id {index}: {len(modules)} modules are visible to this process, "
            f"so use 0 to {len(modules) - 1}"
        )
    is_unguided = not os.environ.get("HABANA_VISIBLE_MODULES")
    if is_unguided and index != 0 and device_count() < NODE_SIZE:
        raise AssertionError(
            f"Invalid device id {index}: the node has fewer than {NODE_SIZE} modules. Set HLS_MODULE_ID to "
            "the module of this process, or use 0."
        )
    if is_initialized() and not is_own_device_index(index):
        raise AssertionError(
            f"Invalid device id {index}: this process already uses module {modules[0]}. Call set_device "
            f"before the first use of the device, or start the process with HLS_MODULE_ID={modules[index]}."
        )
    os.environ["HLS_MODULE_ID"] = str(modules[index])


def _require_device_index(device: Any) -> int:
    try:
        return _get_device_index(device, optional=True)
    except (ValueError, RuntimeError):  # replaces torch's longer error message
        raise ValueError(
            f"Expected a {DEVICE_TYPE} device, but got: {device!r}; use an index, '{DEVICE_TYPE}', "
            f"'{DEVICE_TYPE}:0' or None"
        ) from None


class device:
    """Context manager that checks a device argument. A process has one device, so nothing is switched.

    Args:
        device: an hpu device, an index, or None. None, negative indices and 0 are always accepted. Any other
            index is accepted only if it denotes the module of this process.

    Raises:
        AssertionError: the index is the module of another process.
        ValueError: `device` is not an hpu device.
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        if self.idx > 0 and not is_own_device_index(self.idx):
            raise AssertionError(
                f"Invalid device id {self.idx}: this process has one device, {DEVICE_TYPE}:0 "
                f"(HLS_MODULE_ID is {os.environ.get('HLS_MODULE_ID', 'not set')})"
            )

    def __enter__(self) -> device:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class device_of(device):
    """Context manager for the device of a tensor or storage, like `device`. Other device types are ignored.

    Args:
        obj: an object with the attribute ``device``.
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == DEVICE_TYPE else None)


def synchronize(device: Any = None) -> None:
    """Wait until all work on all streams of the device has run.

    Raises:
        RuntimeError: a queued operator failed; or the process was forked from a process that had acquired the
            device.
        AssertionError: `device` is not the device of this process.
    """
    if device is not None:
        _check_device_exists(device)
    if _C.is_in_bad_fork():
        _lazy_init()
    if is_initialized():
        _C.synchronize()


def _check_device_exists(chosen: Any) -> None:
    device(chosen)


def _exchange_device(device: int) -> int:
    return 0


def _maybe_exchange_device(device: int) -> int:
    return 0
