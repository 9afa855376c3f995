"""Exit codes of a run, and the precedence among the codes of several runs."""

from __future__ import annotations

from collections.abc import Iterable

#: All results are as expected; some are not; the run could not start; planned results are missing.
OK, UNEXPECTED, USAGE, INCOMPLETE = 0, 1, 2, 3

#: The exit code of several runs is the first of these codes that one of them has.
PRECEDENCE = (USAGE, INCOMPLETE, UNEXPECTED, OK)


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the exit code of several runs; OK for an empty list."""
    return min(codes, key=PRECEDENCE.index, default=OK)
