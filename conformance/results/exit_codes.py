"""Exit codes of a run, and which of several counts."""

from __future__ import annotations

from collections.abc import Iterable

#: All results are as expected; some are not; the run could not start; results that were due are missing.
OK, UNEXPECTED, USAGE, INCOMPLETE = 0, 1, 2, 3

#: The first of these codes that one of several runs has is the code of all.
PRECEDENCE = (USAGE, INCOMPLETE, UNEXPECTED, OK)


def worst(codes: Iterable[int]) -> int:
    """The exit code of several runs; OK if there is none."""
    return min(codes, key=PRECEDENCE.index, default=OK)
