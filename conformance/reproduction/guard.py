"""A process for what a device may take down, watched from one that never touches it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance.errors import UsageError

_CHECKED = b"c"


class Watch:
    """What the watched process tells the one that watches; ``again`` says that it died before.

    ``trace`` is the file into which it writes, before each call on the device, the snippet of that call.
    """

    def __init__(self, pipe: int | None, *, again: bool = False, trace: Path | None = None) -> None:
        self.again = again
        self.trace = trace
        self._pipe = pipe

    def checked(self) -> None:
        """The result is there; from now on nothing is timed."""
        if self._pipe is not None:
            os.write(self._pipe, _CHECKED)


def guarded(work: Callable[[Watch], int], timeout: float) -> int:
    """The exit code of ``work``, done in a child process where this one has not loaded torch yet.

    Where the child dies of a signal or takes longer than ``timeout`` seconds for its result, it is done once
    more with every call written down, and the snippet of the last one is shown.
    """
    if "torch" in sys.modules or not hasattr(os, "fork"):
        return work(Watch(None))
    code, words = _child(work, timeout, again=False, trace=None)
    if words is None:
        return code
    print(f"the process {words}")
    if not words.endswith("the result"):
        print(
            "the result itself is above; shrinking took the process down, so give --no-shrink for a snippet"
        )
        return 1
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "snippet.py"
        _, again = _child(work, timeout, again=True, trace=trace)
        if again is None or not trace.exists():
            print("no snippet: done again call by call, it did not happen, or not in a call of its own")
        else:
            print(f"done again call by call, the process {again}; not shrunk, each try would take a process")
            print("----- snippet -----")
            print(trace.read_text().rstrip())
            print("----- end of snippet -----")
            print("It needs torch and the backend only. Save it and run it with python: it ends the same")
            print("way while the failure is there, and exits with 0 once it is gone.")
    return 1


def _child(
    work: Callable[[Watch], int], timeout: float, *, again: bool, trace: Path | None
) -> tuple[int, str | None]:
    """(exit code, how it died or None) of ``work`` in a child."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _end(work, Watch(writing, again=again, trace=trace))
    os.close(writing)
    try:
        checked, late = _wait(reading, timeout)
        if late:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    except KeyboardInterrupt:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(reading)
    when = "after that" if checked else "before the end of the result"
    if late:
        return 1, f"had to be ended after {timeout:.0f} s, before the end of the result"
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return 1, f"died of {name} {when}"
    return os.WEXITSTATUS(status), None


def _wait(pipe: int, timeout: float) -> tuple[bool, bool]:
    """(whether the result came, whether time ran out before that); returns when the child has ended too."""
    until = time.monotonic() + timeout
    checked = False
    while True:
        left = None if checked else max(0.0, until - time.monotonic())
        ready, _, _ = select.select([pipe], [], [], left)
        if not ready:
            return False, True
        if not os.read(pipe, 64):
            return checked, False
        checked = True


def _end(work: Callable[[Watch], int], watch: Watch) -> None:
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
        import traceback

        traceback.print_exc()
        print("conformance repro: a fault of the suite, please report it", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
