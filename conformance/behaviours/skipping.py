"""Skip a statement of a behaviour's program.

If a statement of basis parity raises an error on the device, the program continues without it. Later
observations may depend on the statement: it may have written a tensor or drawn an input. The CPU therefore
runs the program again and skips the same statement, by a trace function that raises :class:`StatementSkipped`
at its line.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from conformance.model.verdicts import Basis

_OWN_FOLDER = str(Path(__file__).parent)
_PROPERTIES = str(Path(__file__).parents[1] / "properties")


class FailedStatement(NamedTuple):
    """A statement that raised an error on the device.

    ``context_number`` is the number of the basis context (:meth:`.lab.Lab.parity`) around the statement. The
    counts are the numbers of observations and deviations that were recorded before the error.
    """

    context_number: int
    code: CodeType
    line: int
    observation_count: int
    deviation_count: int
    error: Exception
    basis: Basis


class StatementSkipped(BaseException):
    """Raised in the run on the CPU in place of a statement that the device could not run.

    Programs do not catch this exception, because it is not derived from ``Exception``.
    """


def statement_of_error(
    error: Exception, basis: Basis, context_number: int, observation_count: int, deviation_count: int
) -> FailedStatement | None:
    """Return the innermost statement of a program, or of a function of the suite that it calls, in an error's
    traceback.

    Return None if the traceback has no frame of a program. The two counts are the numbers of observations and
    deviations that were recorded before the error.
    """
    frames = [
        (frame.f_code, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not _is_code_of_context_manager(frame.f_code)
    ]
    program_file = frames[0][0].co_filename if frames else ""
    statements = [
        (code, line)
        for code, line in frames
        if code.co_filename == program_file or code.co_filename.startswith(_PROPERTIES)
    ]
    if not statements:
        return None
    return FailedStatement(context_number, *statements[-1], observation_count, deviation_count, error, basis)


def _is_code_of_context_manager(code: CodeType) -> bool:
    return code.co_filename.startswith(_OWN_FOLDER) or code.co_filename == contextlib.__file__


@contextlib.contextmanager
def skip_statement(
    statement: FailedStatement, count_observations: Callable[[], int], skipped: set[int]
) -> Iterator[None]:
    """Leave this context when ``statement`` is about to run, and add its context number to ``skipped``.

    A trace function raises :class:`StatementSkipped` at the statement. The context suppresses the exception.
    """

    def trace_line(frame: FrameType, event: str, argument: Any) -> Any:
        reached = frame.f_code is statement.code and frame.f_lineno == statement.line
        if event == "line" and reached and count_observations() == statement.observation_count:
            raise StatementSkipped
        return trace_line

    def trace_call(frame: FrameType, event: str, argument: Any) -> Any:
        return trace_line if frame.f_code is statement.code else None

    caller = sys._getframe(1)
    while _is_code_of_context_manager(caller.f_code) and caller.f_back is not None:
        caller = caller.f_back
    before, traced_before = sys.gettrace(), caller.f_trace
    caller.f_trace = trace_line
    sys.settrace(trace_call)
    try:
        yield
    except StatementSkipped:
        skipped.add(statement.context_number)
    finally:
        sys.settrace(before)
        caller.f_trace = traced_before
