"""The provisional time limit: a result that takes far longer than all others of its run probably hangs.

The worker of such a result ends at the provisional limit. The verdict does not depend on it: the result runs
once more with the full limit, or a result of the same operator or behaviour does so and is lost too.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: The least provisional limit, in seconds. A loaded machine must not exceed it.
LEAST = 30.0
#: The provisional limit as a multiple of the longest time of a result.
FACTOR = 4.0
#: The number of finished results from which their longest time counts.
RESULTS = 50
#: The name of the file in a run's folder that contains the limit.
FILE = "limit.txt"


def provisional_limit(longest: float, results: int, limit: float) -> float:
    """Return the provisional limit in seconds.

    Args:
        longest: the longest time of a result of this run that finished, in seconds.
        results: the number of results that finished.
        limit: the full limit of a result, in seconds.
    """
    return limit if results < RESULTS else min(limit, max(LEAST, FACTOR * longest))


class LimitFile:
    """The file from which the workers read the provisional limit that the runner has computed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version = 0
        self._limit: float | None = None

    def write(self, limit: float) -> None:
        """Write the limit, so that a reader sees the old one or the new one."""
        if limit != self._limit:
            self._limit = limit
            draft = self.path.with_suffix(".new")
            draft.write_text(f"{limit:g}\n")
            draft.replace(self.path)

    def remove(self) -> None:
        """Remove the file. Readers then have the full limit or the limit that they read last."""
        self._limit = None
        self.path.unlink(missing_ok=True)

    def read(self, full: float) -> float:
        """Return the limit, at most ``full``. Return ``full`` without a file, or if it is damaged."""
        with contextlib.suppress(OSError, ValueError):
            version = os.stat(self.path).st_mtime_ns
            if version != self._version:
                self._limit, self._version = float(self.path.read_text()), version
        return full if self._limit is None else min(full, self._limit)
