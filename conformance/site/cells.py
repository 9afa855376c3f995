"""The cells of the site: backend × build of torch × mode, each with its newest run and those before."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Mapping, Sequence

from conformance.certificate import entitlement, standing
from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.plan.levels import manifest
from conformance.results import diff
from conformance.site.columns import Build, release
from conformance.site.provenance import CHANNELS
from conformance.site.submissions import Submission
from conformance.site.tables import Place

#: Days after which a run is ageing, stale, and retired.
FRESH, STALE, RETIRED = 3, 14, 90
AGES = ("fresh", "ageing", "stale", "retired")
_GOOD = ("pass", "xfail")


@dataclasses.dataclass(frozen=True)
class Run:
    """A leg in figures. ``level`` is the broadest that it holds; ``passed`` and ``claimed`` count among the
    ``planned`` results of its own level; ``regressed`` are the ids that regressed since ``compared_with``.
    """

    submission: Submission
    level: str | None
    passed: int
    planned: int
    claimed: int
    status: str
    regressed: tuple[str, ...] = ()
    compared_with: str | None = None

    @property
    def share(self) -> float:
        """The share of planned results that passed."""
        return self.passed / self.planned if self.planned else 0.0

    @property
    def share_claimed(self) -> float:
        """The share of planned results that the target claims."""
        return self.claimed / self.planned if self.planned else 0.0


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell with its runs, the newest first, and the age of the newest. ``missing``: the time since which
    this project's workflow has scheduled the cell without a result.
    """

    backend: str
    build: Build
    mode: str
    runs: tuple[Run, ...]
    age: str
    missing: datetime.datetime | None = None

    @property
    def newest(self) -> Run:
        """The run that the cell shows: among the recent ones, the newest of the most trusted channel."""
        latest = self.runs[0].submission.when
        recent = [run for run in self.runs if (latest - run.submission.when).days <= STALE]
        order = list(CHANNELS)
        return min(recent, key=lambda run: order.index(run.submission.provenance.channel))


def age_of(when: datetime.datetime, today: datetime.date) -> str:
    """Return the age of a run, one of ``AGES``."""
    days = (today - when.date()).days
    return AGES[sum(days > limit for limit in (FRESH, STALE, RETIRED))]


def cells(
    submissions: Sequence[Submission],
    today: datetime.date,
    missing: Mapping[Place, Sequence[datetime.datetime]] | None = None,
) -> list[Cell]:
    """Group runs into cells by backend, build and mode; ``missing``: see :mod:`conformance.site.tables`."""
    grouped: dict[tuple[str, Build, str], list[Submission]] = {}
    for submission in submissions:
        key = (submission.backend.id, Build.of(submission.leg), str(submission.leg["mode"]))
        grouped.setdefault(key, []).append(submission)
    summed_cells = []
    for (backend, build, mode), runs in grouped.items():
        ordered = sorted(runs, key=lambda submission: submission.when, reverse=True)
        summed = tuple(
            summary(submission, _before(submission, ordered[place + 1 :]))
            for place, submission in enumerate(ordered)
        )
        cell = Cell(backend, build, mode, summed, "")
        shown = cell.newest.submission
        nights = (missing or {}).get(Place(backend, build, mode), [])
        since = min((night for night in nights if night > shown.provenance.received), default=None)
        summed_cells.append(dataclasses.replace(cell, age=age_of(shown.when, today), missing=since))
    return sorted(
        summed_cells,
        key=lambda cell: (cell.backend, release(cell.build.version), cell.build.kind, cell.mode),
    )


def _before(submission: Submission, earlier: Sequence[Submission]) -> Submission | None:
    """Find the latest earlier run that can be compared with this one: complete, and of the same level."""
    leg = submission.leg
    if standing.of(leg)[0] not in ("passed", "failed"):
        return None
    for candidate in earlier:
        same = (candidate.leg["level"], candidate.leg["samples"]) == (leg["level"], leg["samples"])
        if same and standing.of(candidate.leg)[0] in ("passed", "failed"):
            return candidate
    return None


def summary(submission: Submission, before: Submission | None) -> Run:
    """Sum up a run in figures, compared with the run before."""
    leg = submission.leg
    totals = leg["totals"]
    planned = int(leg["planned"])
    status, _ = standing.of(leg)
    regressed: tuple[str, ...] = ()
    if before is not None:
        try:
            report = diff.compare([before.leg], [leg])
            regressed = tuple(change.id for pair in report.pairs for change in pair.counted)
        except UsageError:  # nothing in common
            before = None
    return Run(
        submission,
        held(leg),
        sum(int(totals.get(word, 0)) for word in _GOOD),
        planned,
        planned - int(totals.get("unsupported", 0)),
        status,
        regressed,
        None if before is None else before.run,
    )


@functools.cache
def _manifest() -> manifest.Manifest:
    return manifest.load()


def held(leg: Leg) -> str | None:
    """Return the broadest level that a leg holds, or None, also if the manifest does not know its torch."""
    try:
        return entitlement.held(leg, _manifest())
    except UsageError:
        return None
