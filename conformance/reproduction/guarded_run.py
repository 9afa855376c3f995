"""A process for what a device may take down, watched from one that never touches it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance.errors import UsageError


class Watch:
    """The watched process's line to the one that watches; ``again`` says that it died before.

    ``trace`` is the file into which it writes, before each call on the device, the snippet of that call.
    """

    def __init__(self, line: Connection | None, *, again: bool = False, trace: Path | None = None) -> None:
        self.again = again
        self.trace = trace
        self._line = line

    def checked(self) -> None:
        """Report that the result is there; from now on nothing is timed."""
        if self._line is not None:
            self._line.send_bytes(b"checked")


def guarded(work: Callable[[Watch], int], timeout: float, snippet: Path | None = None) -> int:
    """The exit code of ``work``, done in a child process if this one has not loaded torch yet.

    If the child dies of a signal or takes longer than ``timeout`` seconds for its result, it is done once
    more with every call written down, and the snippet of the last one is shown, and written to ``snippet``.
    """
    if "torch" in sys.modules or not hasattr(os, "fork"):
        return work(Watch(None))
    code, death = _child(work, timeout)
    if not death:
        return code
    print(f"the process {death}")
    if not death.endswith("the result"):
        print(
            "the result itself is above; shrinking took the process down, so give --no-shrink for a snippet"
        )
        return 1
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "snippet.py"
        _, death = _child(work, timeout, trace=trace)
        if not death or not trace.exists():
            print("no snippet: done again call by call, it did not happen, or not in a call of its own")
        else:
            print(f"done again call by call, the process {death}; not shrunk, each try would take a process")
            if snippet is not None:
                snippet.write_text(trace.read_text())
                print(f"snippet: {snippet}")
            print("----- snippet -----")
            print(trace.read_text().rstrip())
            print("----- end of snippet -----")
            print("It needs torch and the backend only. Save it and run it with python: it ends the same")
            print("way while the failure is there, and exits with 0 once it is gone.")
    return 1


def _child(work: Callable[[Watch], int], timeout: float, trace: Path | None = None) -> tuple[int, str]:
    """(exit code, how it died or "") of ``work`` in a child."""
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    watch = Watch(writing, again=trace is not None, trace=trace)
    child = context.Process(target=_finish, args=(work, watch))
    child.start()
    writing.close()
    try:
        late = not reading.poll(timeout)
        checked = not late and _checked(reading)
        if late:
            child.kill()
        child.join()
    except KeyboardInterrupt:
        child.kill()
        child.join()
        raise
    if late:
        return 1, f"had to be ended after {timeout:.0f} s, before the end of the result"
    code = child.exitcode or 0
    if code >= 0:
        return code, ""
    when = "after that" if checked else "before the end of the result"
    return 1, f"died of {signal.Signals(-code).name} {when}"


def _checked(line: Connection) -> bool:
    """Return whether the watched process reported its result before it ended."""
    try:
        return bool(line.recv_bytes())
    except EOFError:
        return False


def _finish(work: Callable[[Watch], int], watch: Watch) -> None:
    """Do the work and leave at once: a device may hang whatever would be tidied up."""
    code = 3
    try:
        code = work(watch)
    except UsageError as error:
        print(f"conformance repro: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("conformance repro: stopped by the user", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        print("conformance repro: a fault of the suite, please report it", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
