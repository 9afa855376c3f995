"""A process for what a device may take down, watched from one that never touches it."""

from __future__ import annotations

import dataclasses
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance.errors import UsageError
from conformance.process_control.child import Child, ChildEnd, How
from conformance.process_control.parent_link import ParentLink
from conformance.process_control.supervisor import watch


class Watch:
    """The watched process's link to the one that watches; ``again`` says that it died before.

    ``trace`` is the file into which it writes, before each call on the device, the snippet of that call.
    """

    def __init__(self, link: ParentLink | None, *, again: bool = False, trace: Path | None = None) -> None:
        self.again = again
        self.trace = trace
        self._link = link

    def checked(self) -> None:
        """Report that the result is there; from now on nothing is timed."""
        if self._link is not None:
            self._link.send(b"checked")


@dataclasses.dataclass(frozen=True)
class _Run:
    """The end of the watched process, and whether the result was ``checked`` before."""

    end: ChildEnd
    checked: bool

    def words(self, timeout: float) -> str:
        """Return in words how the process died."""
        when = "after that" if self.checked else "before the end of the result"
        if self.end.how is How.TIMED_OUT:
            return f"had to be ended after {timeout:.0f} s, {when}"
        if self.end.how is How.CRASHED:
            return f"died of {self.end.signal} {when}"
        return f"closed its files and had to be ended {when}"


def guarded(work: Callable[[Watch], int], timeout: float, snippet: Path | None = None) -> int:
    """The exit code of ``work``, done in a child process if this one has not loaded torch yet.

    If the child dies of a signal or takes longer than ``timeout`` seconds for its result, it is done once
    more with every call written down, and the snippet of the last one is shown, and written to ``snippet``.
    """
    if "torch" in sys.modules or not hasattr(os, "fork"):
        return work(Watch(None))
    run = _child(work, timeout)
    if run.end.how is How.EXITED:
        return run.end.code
    print(f"the process {run.words(timeout)}")
    if run.checked:
        print(
            "the result itself is above; shrinking took the process down, so give --no-shrink for a snippet"
        )
        return 1
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "snippet.py"
        run = _child(work, timeout, trace=trace)
        if run.end.how is How.EXITED or not trace.exists():
            print("no snippet: done again call by call, it did not happen, or not in a call of its own")
        else:
            death = run.words(timeout)
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


def _child(work: Callable[[Watch], int], timeout: float, trace: Path | None = None) -> _Run:
    """Do the work in a child process, in ``timeout`` seconds until the result is checked."""

    def child_side(link: ParentLink) -> int:
        return _exit_code(work, Watch(link, again=trace is not None, trace=trace))

    with Child.fork(child_side) as child:
        message = child.receive(timeout)
        if message is None:
            return _Run(child.stop(How.TIMED_OUT), checked=False)
        if isinstance(message, ChildEnd):
            return _Run(message, checked=False)
        child.disconnect()  # from now on nothing is expected
        return _Run(watch(child), checked=True)


def _exit_code(work: Callable[[Watch], int], side: Watch) -> int:
    """Do the work and return its exit code, with a message for an error."""
    try:
        return work(side)
    except UsageError as error:
        print(f"conformance repro: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("conformance repro: stopped by the user", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        print("conformance repro: a fault of the suite, please report it", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 3
