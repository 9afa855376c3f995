"""Processes of a run that end with the one that started them, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

#: Names the process that a process of the suite belongs to.
VARIABLE = "CONFORMANCE_PARENT"
_PR_SET_PDEATHSIG = 1


def follow() -> None:
    """End this process when its parent does.

    A runner that is killed cannot end its workers, and a worker whose case hangs never reads the pipe to its
    parent: so the kernel is asked to kill it. If it cannot be asked, a thread checks every few seconds.
    """
    parent = os.getppid()
    expected = os.environ.pop(VARIABLE, None)
    if expected is not None and int(expected) != parent:
        os._exit(1)  # it died before this line
    if sys.platform == "linux":
        try:
            if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0:
                if os.getppid() != parent:
                    os._exit(1)
                return
        except (OSError, AttributeError):
            pass
    threading.Thread(target=_watch, args=(parent,), name="conformance-orphan", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(2.0)
    os._exit(1)
