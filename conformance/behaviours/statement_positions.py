"""Positions in a behaviour's program, which relate the run on the device to the run on the CPU.

A deviation is ignored if its statement needs an undeclared dtype. Most programs need only declared dtypes.
Therefore the dtypes of statements are collected only after a deviation: the program is rerun on the CPU, and
the undeclared dtypes of each operator call are recorded at the position of the call. A position is a
statement together with the number of earlier observations, which distinguishes the iterations of a loop.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import traceback
from types import CodeType, TracebackType
from typing import NamedTuple


class StatementPosition(NamedTuple):
    """The first line of a statement of the program, and the number of earlier observations."""

    line: int
    observation_count: int


@functools.cache
def _first_line_of_statement_by_line(file: str) -> dict[int, int]:
    """Map each line of a file to the first line of the innermost statement that contains the line.

    A call and its arguments may span several lines.
    """
    first: dict[int, int] = {}
    # ast.walk yields a statement before the statements inside it. The innermost statement of a line is thus
    # the last statement, and its entry replaces the earlier entries of the line.
    for node in ast.walk(ast.parse("".join(linecache.getlines(file)))):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            first.update(dict.fromkeys(range(node.lineno, end + 1), node.lineno))
    return first


def calling_statement(program: CodeType, observation_count: int) -> StatementPosition | None:
    """Return the position of the running statement of a program, or None if the program is not in the call
    stack. ``observation_count`` is the number of observations that were recorded before.
    """
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        if frame.f_code is program:
            return _position_at(program, line, observation_count)
    return None


def position_of_error(
    trace: TracebackType | None, program: CodeType, observation_count: int
) -> StatementPosition | None:
    """Return the position of the innermost statement of a program in a traceback, or None.
    ``observation_count`` is the number of observations that were recorded before the error.
    """
    lines = [line for frame, line in traceback.walk_tb(trace) if frame.f_code is program]
    return _position_at(program, lines[-1], observation_count) if lines else None


def _position_at(program: CodeType, line: int, observation_count: int) -> StatementPosition:
    return StatementPosition(
        _first_line_of_statement_by_line(program.co_filename).get(line, line), observation_count
    )
