"""The watchdog of a worker: it ends the process when a result takes too long, even while the GIL is held."""

from __future__ import annotations

import contextlib
import faulthandler
import threading
import time
from collections.abc import Iterator
from pathlib import Path

#: The first characters that faulthandler writes at a timeout.
TIMEOUT_MARK = "Timeout ("


class Watchdog:
    """Kills the process in which it runs if one result takes longer than ``limit`` seconds.

    A C thread of ``faulthandler``, which does not need the GIL, waits until the limit is exceeded. The C
    thread writes the tracebacks of all Python threads to ``path`` before the process ends. Each start of this
    timer starts a thread and takes a quarter of a millisecond. The timer is therefore restarted only after a
    twentieth of the limit, so that a result gets between 95 % and 100 % of the limit. While no result runs, a
    Python thread restarts the timer periodically.
    """

    def __init__(self, path: Path, limit: float) -> None:
        self.limit = limit
        self._file = path.open("w")
        self._lock = threading.Lock()
        self._busy = False
        self._set_deadline(limit)
        faulthandler.enable(file=self._file, all_threads=True)
        threading.Thread(target=self._restart_while_idle, name="conformance-watchdog", daemon=True).start()

    def start_limit(self) -> None:
        """Start the time limit of a result."""
        with self._lock:
            self._busy = True
            if time.monotonic() - self._armed > self.limit / 20:
                self._set_deadline(self.limit)

    def stop_limit(self) -> None:
        """Stop the time limit, because no result is running."""
        with self._lock:
            self._busy = False

    @contextlib.contextmanager
    def limit_seconds(self, seconds: float) -> Iterator[None]:
        """Limit the code inside this context to ``seconds`` seconds."""
        with self._lock:
            self._set_deadline(seconds)
            self._busy = True
        yield
        with self._lock:
            self._set_deadline(self.limit)

    def _set_deadline(self, seconds: float) -> None:
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._file)
        self._armed = time.monotonic()

    def _restart_while_idle(self) -> None:
        while True:
            time.sleep(self.limit / 4)
            with self._lock:
                if not self._busy:
                    self._set_deadline(self.limit)


def timed_out_and_traceback(path: Path, *, limit: int = 3000) -> tuple[bool, str]:
    """Return whether the watchdog ended the process that wrote ``path``, and the traceback in that file.

    The watchdog's own thread is omitted. A traceback longer than ``limit`` characters is truncated at its
    end, because the innermost frame comes first.
    """
    try:
        text = path.read_text(errors="replace").strip()
    except OSError:
        return False, ""
    timed_out = any(line.startswith(TIMEOUT_MARK) for line in text.splitlines())
    blocks = text.split("\n\n")
    text = "\n\n".join(block for block in blocks if f'"{__file__}"' not in block.partition("\n")[2][:300])
    return timed_out, text if len(text) <= limit else text[:limit] + "\n…"
