"""Prevent a crash at exit after a backward pass.

After a backward pass, torch's backward thread of the device drops the last references to the graph, while the
caller already continues. The thread needs the GIL to drop them. If the interpreter finalises at this moment,
it kills the thread inside C++ code, and the process aborts. A wait of 20 ms without the GIL, before
finalisation, lets the thread finish. (20 ms was always enough on an idle machine, but may be too
short on a loaded machine.) A process without a backward thread does not wait.
"""

from __future__ import annotations

import atexit
import time
from types import ModuleType

_SECONDS = 0.02


def register_exit_wait(core: ModuleType) -> None:
    """Register a wait at exit. The wait is skipped if no backward pass has run."""

    def wait() -> None:
        if core.has_backward_threads():
            time.sleep(_SECONDS)

    atexit.register(wait)
