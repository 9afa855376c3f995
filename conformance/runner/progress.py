"""Show the progress of a run: on a terminal as one line that is updated, elsewhere as one line per minute."""

from __future__ import annotations

import collections
import dataclasses
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

#: Seconds in which a process starts, imports torch and the backend, and reads its plan. Each
#: second attempt that ends its process again causes such a start.
_PROCESS_START = 3.0
#: Seconds after which an additional worker starts while a worker waits for the time limit of its result. The
#: time limits of second attempts that hang again therefore overlap.
_WAITING = 6.0


#: The weight of the mean of all properties in the estimate for one property, in expected seconds.
_PRIOR = 2.0


@dataclasses.dataclass
class _PropertySeconds:
    """Seconds of one property. ``planned`` are the expected seconds of all its results, ``done`` of the
    finished results, and ``counted`` of the results that finished in this run. ``took`` is the
    actual duration of the counted results.
    """

    planned: float = 0.0
    done: float = 0.0
    counted: float = 0.0
    took: float = 0.0

    def estimated_seconds_left(self, mean: float) -> float:
        """Return the estimated duration of the missing results. ``mean`` is the mean ratio, over all
        properties, of the duration to the expected seconds.
        """
        ratio = (self.took + mean * _PRIOR) / (self.counted + _PRIOR)
        return ratio * max(0.0, self.planned - self.done)


def _property_of(result_id: str) -> str:
    return result_id.partition("/")[0]


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
        #: The results counted so far, and the seconds of each property.
        self._counted = 0
        self._properties: dict[str, _PropertySeconds] = collections.defaultdict(_PropertySeconds)
        for result_id, expected in expected_seconds.items():
            self._properties[_property_of(result_id)].planned += expected
        self._count_done(before=True)

    def _count_done(self, *, before: bool = False) -> None:
        """Count new results. If ``before`` is true, they finished before the run was resumed."""
        attempts = self.run_state.attempts
        for result_id in itertools.islice(attempts, self._counted, None):
            seconds = self._properties[_property_of(result_id)]
            seconds.done += self.expected_seconds.get(result_id, 0.0)
            if not before:
                seconds.counted += self.expected_seconds.get(result_id, 0.0)
                seconds.took += attempts[result_id][0].get("seconds", 0.0)
        self._counted = len(attempts)

    def show(self) -> None:
        """Print the current state unless the last line was printed less than an interval ago."""
        now = time.monotonic()
        if not self.loud or now < self._next:
            return
        self._next = now + (0.5 if self.terminal else 60.0)
        text = self.progress_line(now - self._started)
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

    def progress_line(self, seconds: float) -> str:
        """Return the progress line: percentage, counts, rate and remaining time after ``seconds``.

        The failures include expected failures, because expectations are applied only at the end of the run.
        The remaining time follows from the expected seconds of the results that are done and missing. It
        includes second attempts, which run after all first attempts.
        """
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
        if done < planned:
            rate = done / seconds if seconds > 0 else 0.0
            left = self.seconds_left(seconds)
            counts = f"{done}/{planned} results ({100 * done // planned} %), {failing}"
            time_left = "?" if left is None else format_duration(left)
            return f"{self.label}: {counts}, {rate:.0f}/s, {time_left} left"
        if to_retry:
            repeated = sum(len(rows) > 1 for rows in attempts.values())
            rest = (
                f"second attempt {repeated + 1} of {repeated + len(to_retry)}, "
                f"{format_duration(self._seconds_of_second_attempts(to_retry))} left"
            )
        else:
            rest = "reference values are recomputed"
        return f"{self.label}: {done} results, {failing}; {rest}"

    def seconds_left(self, seconds: float) -> float | None:
        """Return the estimated remaining seconds of the run, including second attempts; None before the first
        result. ``seconds`` is the time since the start of the run.
        """
        self._count_done()
        took = sum(property_seconds.took for property_seconds in self._properties.values())
        counted = sum(property_seconds.counted for property_seconds in self._properties.values())
        if took <= 0 or counted <= 0:
            return None
        left = sum(
            property_seconds.estimated_seconds_left(took / counted)
            for property_seconds in self._properties.values()
        )
        again = self._seconds_of_second_attempts(self.run_state.results_to_retry())
        # Scale by the ratio of elapsed time to durations so far, which reflects parallel workers and process
        # starts.
        return left * seconds / took + again * (took + left) / took

    def _seconds_of_second_attempts(self, results: list[str]) -> float:
        """Return the expected duration of the second attempts at these results, in one worker."""
        seconds = 0.0
        longest_wait = 0.0
        for result_id in results:
            row = self.run_state.attempts[result_id][-1]
            took = row.get("seconds", 0.0)
            if row["verdict"] == Verdict.TIMEOUT.value and self.run_state.can_workers_wait:
                longest_wait = max(longest_wait, took)
                took = _WAITING
            seconds += max(_PROCESS_START, took)
        return seconds + longest_wait
