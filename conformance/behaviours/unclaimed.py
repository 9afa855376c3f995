"""Statements of a behaviour that need dtypes which the target does not declare.

A program may name a dtype in any of its statements, and most programs need none that a device lacks. So they
are looked up only when something deviates: the program runs once more on the CPU, and each operator notes the
dtypes of its tensors beside the statement that led to it.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import traceback
from collections.abc import Callable
from types import TracebackType

from conformance.checking import claims
from conformance.target.target import Target

#: (file, line number) pairs of the frames that were open, the innermost last. Frames themselves would keep
#: alive what a behaviour watches.
Places = tuple[tuple[str, int], ...]


@functools.cache
def _statements(file: str) -> dict[int, int]:
    """Return, for each line of a file, the first line of the innermost statement that it is a part of.

    A call and its arguments may stand on several lines.
    """
    first: dict[int, int] = {}
    for node in ast.walk(ast.parse("".join(linecache.getlines(file)))):  # statements before those in them
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            first.update(dict.fromkeys(range(node.lineno, end + 1), node.lineno))
    return first


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


def statement_in(file: str, places: Places) -> int | None:
    """Return the first line of the statement that the innermost line of a file is a part of, or None."""
    line = line_in(file, places)
    return None if line is None else _statements(file).get(line, line)


def statements(target: Target, file: str, run: Callable[[], object]) -> dict[int, frozenset[str]]:
    """Return the dtypes that a program needs on the CPU and a target does not declare, by the first line of
    each statement of a file.

    What the program raises is left aside: the statements before it are known then.
    """
    found: dict[int, frozenset[str]] = {}

    def note(dtypes: frozenset[str]) -> None:
        line = statement_in(file, here())
        if line is not None:
            found[line] = found.get(line, frozenset()) | dtypes

    claims.watch(target, run, note)
    return found
