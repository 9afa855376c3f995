"""Exit codes of a run, and the precedence among the codes of several runs."""

from __future__ import annotations

from collections.abc import Iterable

#: OK: all results are as expected. UNEXPECTED: some results are not. USAGE: the run could not start.
#: INCOMPLETE: planned results are missing.
OK, UNEXPECTED, USAGE, INCOMPLETE = 0, 1, 2, 3

#: The codes by precedence. The exit code of several runs is the first code in this list that any run has.
PRECEDENCE = (USAGE, INCOMPLETE, UNEXPECTED, OK)


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the exit code of several runs; OK for an empty list."""
    return min(codes, key=PRECEDENCE.index, default=OK)
