"""Show the progress of a run: on a terminal as one line that is updated, elsewhere as one line per minute."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from conformance.model.verdicts import Verdict
from conformance.report.format_duration import format_duration
from conformance.results.run_state import RunState


class Progress:
    """Prints the progress of a run. It counts the last attempt of each result and ignores expectations."""

    def __init__(
        self, run_state: RunState, planned: int, *, label: str, loud: bool = True, out: TextIO = sys.stderr
    ) -> None:
        self.run_state = run_state
        self.planned = planned
        self.label = label
        self.loud = loud
        self.out = out
        self.terminal = out.isatty()
        self._started = time.monotonic()
        self._next = self._started + (0.0 if self.terminal else 60.0)
        self._seen = 0
        self._bad = 0
        self._dirty = False

    def show(self) -> None:
        """Print the current state unless the last line was printed less than an interval ago."""
        now = time.monotonic()
        if not self.loud or now < self._next:
            return
        self._next = now + (0.5 if self.terminal else 60.0)
        text = self.line(now - self._started)
        if self.terminal:
            self.out.write(f"\r\x1b[K{text}")
            self._dirty = True
        else:
            self.out.write(text + "\n")
        self.out.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._dirty:
            self.out.write("\r\x1b[K")
            self.out.flush()

    def line(self, seconds: float) -> str:
        """Return the progress line: percentage, counts, rate and remaining time.

        The failures include expected failures, because expectations are applied only at the end of the run.
        """
        done = len(self.run_state.attempts)
        bad = sum(1 for rows in self.run_state.attempts.values() if Verdict(rows[-1]["verdict"]).unexpected)
        rate = done / seconds if seconds > 0 else 0.0
        time_left = format_duration((self.planned - done) / rate) if rate else "?"
        share = 100 * done // max(1, self.planned)
        failing = f"{bad} failing, expected ones included" if bad else "none failing"
        counts = f"{done}/{self.planned} results ({share} %), {failing}"
        return f"{self.label}: {counts}, {rate:.0f}/s, {time_left} left"
