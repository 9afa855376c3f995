"""Places in a behaviour's program, by which the two sides of a behaviour find each other's work.

A program may name a dtype in any of its statements, and most programs need none that a device lacks. So the
dtypes are looked up only when something deviates: the program runs once more on the CPU, and each operator
notes those of its tensors at the place that led to it. A place is a statement together with the number of
observations before it, which differs between the turns of a loop.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import traceback
from types import CodeType, TracebackType
from typing import NamedTuple


class Place(NamedTuple):
    """The first line of a statement of the program, and the number of observations so far."""

    line: int
    moment: int


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


def calling_statement(program: CodeType, moment: int) -> Place | None:
    """Return the place in a program that led to the caller; None if it was called in another way."""
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        if frame.f_code is program:
            return _place(program, line, moment)
    return None


def passed(trace: TracebackType | None, program: CodeType, moment: int) -> Place | None:
    """Return the place in a program that an error passed, or None."""
    lines = [line for frame, line in traceback.walk_tb(trace) if frame.f_code is program]
    return _place(program, lines[-1], moment) if lines else None


def _place(program: CodeType, line: int, moment: int) -> Place:
    return Place(_statements(program.co_filename).get(line, line), moment)
