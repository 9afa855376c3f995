"""Show the progress of a run: on a terminal as one line that is updated, elsewhere as one line per minute."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from conformance.model.records import AttemptRow
from conformance.model.verdicts import Basis, Verdict
from conformance.report.format_duration import format_duration
from conformance.results.final_verdicts import bases_of_failures
from conformance.results.run_state import RunState

#: Seconds in which a process starts, imports torch and the backend, and reads its plan. A second attempt that
#: ends its process again costs one.
_PROCESS_START = 3.0
#: Seconds for which a waiting worker keeps its place before another one takes it. The time limits of second
#: attempts that hang again overlap.
_WAITING = 6.0


class Progress:
    """Prints the progress of a run. It counts the last attempt of each result and ignores expectations."""

    def __init__(
        self,
        run_state: RunState,
        expected_seconds: Mapping[str, float],
        *,
        label: str,
        loud: bool = True,
        out: TextIO = sys.stderr,
    ) -> None:
        """``expected_seconds`` has an entry for each planned result. Only the ratios between the entries
        matter.
        """
        self.run_state = run_state
        self.expected_seconds = expected_seconds
        self.label = label
        self.loud = loud
        self.out = out
        self.terminal = out.isatty()
        self._started = time.monotonic()
        self._next = self._started + (0.0 if self.terminal else 60.0)
        self._dirty = False
        self._expected = sum(expected_seconds.values())
        #: The results counted so far, their expected seconds, and those of results from before a resumption.
        self._counted = 0
        self._done = 0.0
        self._count_done()
        self._done_before = self._done

    def _count_done(self) -> None:
        attempts = self.run_state.attempts
        for result_id in itertools.islice(attempts, self._counted, None):
            self._done += self.expected_seconds.get(result_id, 0.0)
        self._counted = len(attempts)

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

    def _has_verdict_parity(self, row: AttemptRow) -> bool:
        header = self.run_state.header
        if header is None or header.get("parity", "strict") != "apart":
            return False
        return row["verdict"] == Verdict.FAIL.value and bases_of_failures(row) == {Basis.PARITY.value}

    def line(self, seconds: float) -> str:
        """Return the progress line: percentage, counts, rate and remaining time after some seconds.

        The failures include expected failures, because expectations are applied only at the end of the run.
        The remaining time follows from the expected seconds of the results that are done and missing. It
        includes second attempts, which run after all first attempts.
        """
        self._count_done()
        planned = len(self.expected_seconds)
        attempts = self.run_state.attempts
        done = len(attempts)
        unexpected = [rows[-1] for rows in attempts.values() if Verdict(rows[-1]["verdict"]).unexpected]
        parity = sum(map(self._has_verdict_parity, unexpected))
        bad = len(unexpected) - parity
        failing = f"{bad} failing, expected ones included" if bad else "none failing"
        if parity:
            failing += f", {parity} parity"
        to_retry = self.run_state.results_to_retry()
        retry_seconds = self._seconds_of_second_attempts(to_retry)
        if done < planned:
            rate = done / seconds if seconds > 0 else 0.0
            done_now = self._done - self._done_before
            left = None
            if done_now > 0:
                left = seconds * (self._expected - self._done) / done_now
                left += retry_seconds * self._expected / self._done
            counts = f"{done}/{planned} results ({100 * done // planned} %), {failing}"
            time_left = "?" if left is None else format_duration(left)
            return f"{self.label}: {counts}, {rate:.0f}/s, {time_left} left"
        if to_retry:
            repeated = sum(len(rows) > 1 for rows in attempts.values())
            rest = (
                f"second attempt {repeated + 1} of {repeated + len(to_retry)}, "
                f"{format_duration(retry_seconds)} left"
            )
        else:
            rest = "reference values are recomputed"
        return f"{self.label}: {done} results, {failing}; {rest}"

    def _seconds_of_second_attempts(self, results: list[str]) -> float:
        """Return the expected duration of the second attempts at these results, in one worker."""
        seconds = 0.0
        longest_wait = 0.0
        for result_id in results:
            row = self.run_state.attempts[result_id][-1]
            took = row.get("seconds", 0.0)
            if row["verdict"] == Verdict.TIMEOUT.value and self.run_state.workers_may_wait:
                longest_wait = max(longest_wait, took)
                took = _WAITING
            seconds += max(_PROCESS_START, took)
        return seconds + longest_wait
