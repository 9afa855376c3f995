"""Initialise the device once, at its first use."""

from __future__ import annotations

import os
import threading
from types import ModuleType

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.device_type import DEVICE_TYPE
from habana_frameworks.torch.internal.events import EventDispatcher, EventId
from habana_frameworks.torch.internal.patches.import_hooks import run_after_import

_lock = threading.Lock()
_this_thread = threading.local()
_ready = False


def init() -> None:
    """Acquire the device, unless this process has already acquired it.

    Raises:
        RuntimeError: the process was forked from a process that had acquired the device.
    """
    _lazy_init()


def is_initialized() -> bool:
    """Return whether this process has acquired the device."""
    return _C.is_initialized() and not _C.is_in_bad_fork()


def _finish_work() -> None:
    """Wait for all queued and recorded work. The next call that reads data raises errors of this work."""
    _C.finish_work()


def _is_in_bad_fork() -> bool:
    return bool(_C.is_in_bad_fork())


def _lazy_init() -> None:
    """Acquire the device, unless it is already acquired. torch calls this function before it uses hpu."""
    global _ready
    if _ready and not _C.is_in_bad_fork():
        return
    # The core may call this function again during its own start. Only the outermost call acquires the device.
    if getattr(_this_thread, "starting", False):
        return
    if _C.is_in_bad_fork():
        raise RuntimeError(
            f"Cannot re-initialize the {DEVICE_TYPE} device in a forked subprocess, which cannot use the "
            "device memory of its parent. Start the process with the 'spawn' or 'forkserver' method of "
            "multiprocessing."
        )
    with _lock:
        if _ready:
            return
        _this_thread.starting = True
        try:
            _C.init()
            run_after_import("torch.utils.checkpoint", _make_hpu_checkpoint_default)
        finally:
            _this_thread.starting = False
        _ready = True
    EventDispatcher.instance().publish(EventId.DEVICE_ACQUIRED)


def _make_hpu_checkpoint_default(checkpoint: ModuleType) -> None:
    checkpoint.DefaultDeviceType.set_device_type(DEVICE_TYPE)


def _replace_lock_after_fork() -> None:
    # If a thread of the parent held the lock during the fork, the lock would stay locked forever in the
    # child.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_replace_lock_after_fork)
