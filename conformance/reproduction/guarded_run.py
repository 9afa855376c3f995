"""Run work that may crash or hang in a child process. The parent process watches the child and never uses the
device.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance.errors import OUTPUT_CLOSED, UsageError
from conformance.process_control.child import Child, ChildEnd, EndKind
from conformance.process_control.parent_link import ParentLink
from conformance.process_control.supervisor import wait_for_end


class GuardedRunLink:
    """The link of the child process to its parent.

    ``again`` is true in the second run, if the first child crashed or timed out. The second child then writes
    a snippet of each call on the device to the file ``trace`` before the call.
    """

    def __init__(self, link: ParentLink | None, *, again: bool = False, trace: Path | None = None) -> None:
        self.again = again
        self.trace = trace
        self._link = link

    def report_checked(self) -> None:
        """Tell the parent that the result was checked and printed. The time limit ends here."""
        if self._link is not None:
            self._link.send(b"checked")


@dataclasses.dataclass(frozen=True)
class _ChildRun:
    """The end of a child process. ``checked`` is true if the child reported its result before it ended."""

    end: ChildEnd
    checked: bool

    def description(self, timeout: float) -> str:
        """Return a description of the end of the process, such as ``died of SIGSEGV before the result``."""
        when = "after the result" if self.checked else "before the result"
        if self.end.how is EndKind.TIMED_OUT:
            return f"was stopped after {timeout:.0f} s, {when}"
        if self.end.how is EndKind.CRASHED:
            return f"died of {self.end.signal} {when}"
        return f"closed its connection and was stopped {when}"


def run_guarded(work: Callable[[GuardedRunLink], int], timeout: float, snippet: Path | None = None) -> int:
    """Run ``work`` in a child process and return its exit code.

    If torch is already loaded in this process, ``work`` runs in this process.

    If the child dies of a signal, or needs more than ``timeout`` seconds for its result, a second child runs
    ``work`` again and writes a snippet of each call to disk before the call. The snippet of the last call is
    printed and, if ``snippet`` is not None, written to this file.
    """
    if "torch" in sys.modules or not hasattr(os, "fork"):
        return work(GuardedRunLink(None))
    run = _run_in_child(work, timeout)
    if run.end.how is EndKind.EXITED:
        return run.end.code
    print(f"the process {run.description(timeout)}")
    if run.checked:
        print(
            "the result is printed above; shrinking its sample crashed the process. Use --no-shrink to get a "
            "snippet"
        )
        return 1
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "snippet.py"
        run = _run_in_child(work, timeout, trace=trace)
        if run.end.how is EndKind.EXITED or not trace.exists():
            print("no snippet: the second run did not fail, or not in a call that a snippet can repeat")
        else:
            death = run.description(timeout)
            print(
                f"in the second run, the process {death}; the snippet repeats its last call and is not shrunk"
            )
            if snippet is not None:
                snippet.write_text(trace.read_text())
                print(f"snippet: {snippet}")
            print("----- snippet -----")
            print(trace.read_text().rstrip())
            print("----- end of snippet -----")
            print("The snippet needs only torch and the backend. Run with python, it crashes or hangs")
            print("while the failure exists, and exits with 0 once it is fixed.")
    return 1


def _run_in_child(
    work: Callable[[GuardedRunLink], int], timeout: float, trace: Path | None = None
) -> _ChildRun:
    """Run ``work`` in a child process. It must report its result within ``timeout`` seconds."""

    def child_side(link: ParentLink) -> int:
        return _exit_code_of(work, GuardedRunLink(link, again=trace is not None, trace=trace))

    with Child.fork(child_side) as child:
        message = child.receive(timeout)
        if message is None:
            return _ChildRun(child.stop(EndKind.TIMED_OUT), checked=False)
        if isinstance(message, ChildEnd):
            return _ChildRun(message, checked=False)
        child.disconnect()  # the child sends no further message
        return _ChildRun(wait_for_end(child), checked=True)


def _exit_code_of(work: Callable[[GuardedRunLink], int], side: GuardedRunLink) -> int:
    """Run ``work`` and return its exit code. Print a message if it raises an exception."""
    try:
        return work(side)
    except UsageError as error:
        print(f"conformance repro: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("conformance repro: stopped by the user", file=sys.stderr)
    except BrokenPipeError:  # the reader of the output has ended, for example `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except BaseException:
        traceback.print_exc()
        print("conformance repro: a fault of the suite, please report it", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 3
