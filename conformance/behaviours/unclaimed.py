"""Lines of a behaviour that need dtypes which the target does not declare.

A program may name a dtype in any of its lines, and most programs need none that a device lacks. So they are
looked up only when something deviates: the program runs once more on the CPU, and each operator notes the
dtypes of its tensors beside the line that led to it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import TracebackType

from conformance.checking import claims
from conformance.target.target import Target

#: (file, line number) pairs of the frames that were open, the innermost last. Frames themselves would keep
#: alive what a behaviour watches.
Places = tuple[tuple[str, int], ...]


def passed(trace: TracebackType | None) -> Places:
    """Return the places that an error passed."""
    return tuple((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace))


def here() -> Places:
    """Return the places that lead to the caller."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(sys._getframe(1))]
    return tuple(reversed(frames))


def line_in(file: str, places: Places) -> int | None:
    """Return the innermost line of a file among places, or None if it is not among them."""
    return next((line for name, line in reversed(places) if name == file), None)


def lines(target: Target, file: str, run: Callable[[], object]) -> dict[int, frozenset[str]]:
    """Return, by the line numbers of a file, the dtypes that a program needs on the CPU and a target lacks.

    What the program raises is left aside: the lines before it are known then.
    """
    found: dict[int, frozenset[str]] = {}

    def note(dtypes: frozenset[str]) -> None:
        line = line_in(file, here())
        if line is not None:
            found[line] = found.get(line, frozenset()) | dtypes

    claims.watch(target, run, note)
    return found
