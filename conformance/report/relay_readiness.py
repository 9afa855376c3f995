"""Check from stored runs whether backends meet the conditions of PyTorch's cross-repository CI levels.

The thresholds come from RFC-0050, as refined by pytorch/rfcs#102 and implemented in pytorch/test-infra
(``torchci/lib/crcr/l3Thresholds.ts``, and #8754 for long runs), read in 2026. A repository is promoted to L3
if it meets all thresholds for two weeks. A repository is demoted if it misses the threshold for success or
for median time over a week. L2 has no threshold: a repository must only report results. This module cannot
check the waiting time of jobs, the rate of CI timeouts and the time at L2, because only the relay knows them.
"""

from __future__ import annotations

import dataclasses
import datetime
import statistics
from collections.abc import Sequence
from pathlib import Path

from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.model.verdicts import printable
from conformance.report import relay, relay_callback
from conformance.report.format_duration import format_duration
from conformance.results import document

#: The days over which a repository must meet the thresholds to keep L3, and to gain L3.
DAYS_TO_KEEP_LEVEL, DAYS_TO_GAIN_LEVEL = 7, 14
#: Thresholds of L3: the minimum share of successful runs, the time in seconds that the median run must stay
#: below, and the limit of the share of runs that take this time or longer.
SUCCESS, SECONDS, LONGER = 0.9, 3 * 3600.0, 0.01


@dataclasses.dataclass(frozen=True)
class BackendRun:
    """A run: its start, its duration in seconds (the sum over its legs), and whether it succeeded.

    ``named`` is True if every leg records the commit of PyTorch.
    """

    when: datetime.datetime
    seconds: float
    success: bool
    named: bool


@dataclasses.dataclass(frozen=True)
class RunStatistics:
    """Statistics of the runs in a period of time. ``success_share``, ``median`` and ``longest`` are None if
    the period has no runs.
    """

    runs: int
    successes: int
    median: float | None
    longest: float | None
    longer: int

    @property
    def success_share(self) -> float | None:
        """The share of successful runs, or None if there is no run."""
        return self.successes / self.runs if self.runs else None

    @staticmethod
    def from_runs(runs: Sequence[BackendRun]) -> RunStatistics:
        """Return the statistics of the runs."""
        seconds = [run.seconds for run in runs]
        return RunStatistics(
            runs=len(runs),
            successes=sum(run.success for run in runs),
            median=statistics.median(seconds) if seconds else None,
            longest=max(seconds, default=None),
            longer=sum(each >= SECONDS for each in seconds),
        )

    def unmet_conditions(self) -> list[str]:
        """Return the conditions of L3 that these runs do not meet."""
        if self.success_share is None or self.median is None:
            return ["no run"]
        lacks = []
        if self.success_share < SUCCESS:
            lacks.append(f"success {self.success_share:.1%}, {SUCCESS:.0%} needed")
        if self.median >= SECONDS:
            lacks.append(
                f"median run {format_duration(self.median)}, below {format_duration(SECONDS)} needed"
            )
        return lacks


@dataclasses.dataclass(frozen=True)
class BackendRuns:
    """The runs of a backend, and an error for each unreadable run folder."""

    name: str
    runs: tuple[BackendRun, ...]
    problems: tuple[str, ...]

    def runs_within_days(self, days: int, now: datetime.datetime) -> list[BackendRun]:
        """Return the runs of the last ``days``.

        A run that started after ``now`` had a wrong clock and is ignored.
        """
        return [run for run in self.runs if datetime.timedelta() <= now - run.when < datetime.timedelta(days)]

    def l2_status(self, now: datetime.datetime) -> str:
        """Return ``yes``, or the reason why the backend does not meet the conditions of L2."""
        recent = self.runs_within_days(DAYS_TO_KEEP_LEVEL, now)
        if not recent:
            return f"no: no run in {DAYS_TO_KEEP_LEVEL} days"
        return "yes" if any(run.named for run in recent) else "no: no run records its commit of PyTorch"

    def l3_status(self, now: datetime.datetime) -> str:
        """Return ``yes, as far as runs show``, or the unmet conditions of L3."""
        lacks = [
            f"{DAYS_TO_KEEP_LEVEL} days: {condition}"
            for condition in RunStatistics.from_runs(
                self.runs_within_days(DAYS_TO_KEEP_LEVEL, now)
            ).unmet_conditions()
        ]
        runs = self.runs_within_days(DAYS_TO_GAIN_LEVEL, now)
        figures = RunStatistics.from_runs(runs)
        lacks += [f"{DAYS_TO_GAIN_LEVEL} days: {condition}" for condition in figures.unmet_conditions()]
        if runs and figures.longer / figures.runs >= LONGER:
            share = f"{figures.longer} of {figures.runs} runs take {format_duration(SECONDS)} or more"
            lacks.append(f"{DAYS_TO_GAIN_LEVEL} days: {share}, below {LONGER:.0%} needed")
        oldest = min((run.when for run in self.runs if run.when <= now), default=now)
        if now - oldest < datetime.timedelta(days=DAYS_TO_GAIN_LEVEL - 1):
            lacks.append(f"runs of {DAYS_TO_GAIN_LEVEL} days needed, the first is of {oldest:%Y-%m-%d}")
        return "no: " + "; ".join(lacks) if lacks else "yes, as far as runs show"


def read_backends(folder: Path) -> list[BackendRuns]:
    """Read the backends of a folder ``BACKEND/RUN/results.json``.

    Raise UsageError if the folder contains no run.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; give a folder with BACKEND/RUN/results.json")
    backends = [
        _read_backend(path) for path in sorted(folder.iterdir()) if path.is_dir() and path.name[0] != "."
    ]
    backends = [backend for backend in backends if backend.runs or backend.problems]
    if not backends:
        raise UsageError(f"{folder} contains no run; runs must be at BACKEND/RUN/results.json")
    return backends


def _read_backend(folder: Path) -> BackendRuns:
    runs, problems = [], []
    for path in sorted(folder.iterdir()):
        if not path.is_dir():
            continue
        try:
            runs.append(_run_of_legs(document.read_results(path / "results.json")["legs"]))
        except (UsageError, ValueError, OverflowError) as error:
            problems.append(f"{folder.name}/{path.name} is ignored: {error}")
    return BackendRuns(folder.name, tuple(runs), tuple(problems))


def _run_of_legs(legs: Sequence[Leg]) -> BackendRun:
    if not legs:
        raise ValueError("the run has no leg")
    moments = [datetime.datetime.fromisoformat(leg["started"]) for leg in legs]
    if any(moment.tzinfo is None for moment in moments):
        raise ValueError("the start of a leg has no time zone")
    torches = [leg["facts"].get("torch") for leg in legs]
    commits = [str(torch.get("revision")) if isinstance(torch, dict) else "" for torch in torches]
    return BackendRun(
        when=min(moments).astimezone(datetime.timezone.utc),
        seconds=sum(leg["seconds"] for leg in legs),
        success=relay.run_conclusion(legs) == "success",
        named=all(relay_callback.COMMIT.fullmatch(commit) for commit in commits),
    )


def markdown_table(backends: Sequence[BackendRuns], now: datetime.datetime) -> str:
    """Return a Markdown table with one row for each backend."""
    lines = [
        f"| backend | runs in {DAYS_TO_KEEP_LEVEL} days | success | median run | longest run | L2 | L3 |",
        "|---|---|---|---|---|---|---|",
    ]
    for backend in backends:
        figures = RunStatistics.from_runs(backend.runs_within_days(DAYS_TO_KEEP_LEVEL, now))
        share = "-" if figures.success_share is None else f"{figures.success_share:.0%}"
        times = ["-" if each is None else format_duration(each) for each in (figures.median, figures.longest)]
        cells = [
            backend.name,
            str(figures.runs),
            share,
            *times,
            backend.l2_status(now),
            backend.l3_status(now),
        ]
        lines.append(f"| {' | '.join(map(_escaped_cell, cells))} |")
    return "\n".join(lines) + "\n"


def _escaped_cell(text: str) -> str:
    """Return text escaped for one cell of a Markdown table."""
    line = " ".join(printable(text).split())
    return "".join(f"\\{char}" if char in "\\|<>[]`*_" else char for char in line)
