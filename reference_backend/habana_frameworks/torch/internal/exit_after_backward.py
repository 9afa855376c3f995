"""A clean exit after a backward pass.

torch's backward thread of a device drops the last references to a graph after the caller has continued, and
needs the interpreter's lock to do so. An interpreter that finalises at that moment kills the thread inside
C++ code, which aborts the process. A short wait without the lock, before finalisation, lets the thread finish
(20 ms: always enough in trials on a quiet machine, no guarantee on a loaded one). A process in which no
backward pass has run on such a thread ends at once.
"""

from __future__ import annotations

import atexit
import time
from types import ModuleType

_SECONDS = 0.02


def let_backward_finish(core: ModuleType) -> None:
    """Wait at exit, in processes in which a backward pass has run."""

    def wait() -> None:
        if core.has_backward_threads():
            time.sleep(_SECONDS)

    atexit.register(wait)
