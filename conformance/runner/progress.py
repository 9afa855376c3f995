"""Progress of a run: one line that updates itself on a terminal, one line a minute elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from conformance.model.verdicts import Verdict
from conformance.report.durations import duration
from conformance.results.run_state import Ledger


class Progress:
    """Shows how far a ledger has come. Counts last attempts, before expectations."""

    def __init__(
        self, ledger: Ledger, planned: int, *, label: str, loud: bool = True, out: TextIO = sys.stderr
    ) -> None:
        self.ledger = ledger
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
        """Show the present state if it is time to."""
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
        """Leave the line."""
        if self._dirty:
            self.out.write("\r\x1b[K")
            self.out.flush()

    def line(self, seconds: float) -> str:
        """One line: share, counts, rate and the time that is left. Which failures are expected is known at
        the end, when all attempts are in.
        """
        done = len(self.ledger.attempts)
        bad = sum(1 for rows in self.ledger.attempts.values() if Verdict(rows[-1]["verdict"]).unexpected)
        rate = done / seconds if seconds > 0 else 0.0
        left = duration((self.planned - done) / rate) if rate else "?"
        share = 100 * done // max(1, self.planned)
        failing = f"{bad} failing, expected ones included" if bad else "none failing"
        counts = f"{done}/{self.planned} results ({share} %), {failing}"
        return f"{self.label}: {counts}, {rate:.0f}/s, {left} left"
