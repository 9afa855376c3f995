"""Make the processes of a run exit when their parent process exits or is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

#: Environment variable with the process id of the parent.
VARIABLE = "CONFORMANCE_PARENT"
_PR_SET_PDEATHSIG = 1


def exit_with_parent() -> None:
    """Exit this process when its parent exits.

    A killed runner cannot stop its workers, and a worker with a hanging case does not notice that its channel
    was closed. This function therefore asks the kernel to kill this process. On other systems than Linux, a
    thread checks every few seconds whether the parent still exists.
    """
    parent = os.getppid()
    expected = os.environ.pop(VARIABLE, None)
    if expected is not None and int(expected) != parent:
        os._exit(1)  # the parent has exited already
    if sys.platform == "linux":
        try:
            if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0:
                if os.getppid() != parent:
                    os._exit(1)
                return
        except (OSError, AttributeError):
            pass
    threading.Thread(
        target=_exit_when_orphaned, args=(parent,), name="conformance-orphan", daemon=True
    ).start()


def _exit_when_orphaned(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(2.0)
    os._exit(1)
