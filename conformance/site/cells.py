"""The cells of the site: backend × build of torch × mode, each with its newest run and those before."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.certificate import entitlement, standing
from conformance.errors import UsageError
from conformance.plan.levels import manifest
from conformance.results import diff
from conformance.site.columns import Build, release
from conformance.site.provenance import CHANNELS
from conformance.site.submissions import Submission
from conformance.site.tables import Place

#: Days after which a run is no longer fresh, is stale, and is retired.
FRESH, STALE, RETIRED = 3, 14, 90
AGES = ("fresh", "ageing", "stale", "retired")
_GOOD = ("pass", "xfail")


@dataclasses.dataclass(frozen=True)
class Run:
    """One leg, summed up. ``level`` is the broadest that it holds; ``passed`` and ``claimed`` are of the
    ``planned`` results of the level that was run; ``regressed`` are ids that did since the run before.
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
        """Passed of what was planned."""
        return self.passed / self.planned if self.planned else 0.0

    @property
    def share_claimed(self) -> float:
        """Claimed of what was planned."""
        return self.claimed / self.planned if self.planned else 0.0


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell with its runs, the newest first, and how old that one is. ``missing``: since when runs of this
    project's workflow ask for it and get nothing.
    """

    backend: str
    build: Build
    mode: str
    runs: tuple[Run, ...]
    age: str
    missing: datetime.datetime | None = None

    @property
    def newest(self) -> Run:
        """The run that the cell shows: of those of the last days the newest of the most trusted channel."""
        latest = self.runs[0].submission.when
        late = [run for run in self.runs if (latest - run.submission.when).days <= STALE]
        order = list(CHANNELS)
        return min(late, key=lambda run: order.index(run.submission.provenance.channel))


def age_of(when: datetime.datetime, today: datetime.date) -> str:
    """How old a run is: fresh, ageing, stale or retired."""
    days = (today - when.date()).days
    return AGES[sum(days > limit for limit in (FRESH, STALE, RETIRED))]


def cells(
    submissions: Sequence[Submission],
    today: datetime.date,
    missing: Mapping[Place, Sequence[datetime.datetime]] | None = None,
) -> list[Cell]:
    """All cells, by backend, build and mode; ``missing``: see :mod:`conformance.site.tables`."""
    grouped: dict[tuple[str, Build, str], list[Submission]] = {}
    for one in submissions:
        key = (one.backend.id, Build.of(one.leg), str(one.leg["mode"]))
        grouped.setdefault(key, []).append(one)
    found = []
    for (backend, build, mode), runs in grouped.items():
        ordered = sorted(runs, key=lambda one: one.when, reverse=True)
        summed = tuple(summary(one, _before(one, ordered[place + 1 :])) for place, one in enumerate(ordered))
        cell = Cell(backend, build, mode, summed, "")
        shown = cell.newest.submission
        nights = (missing or {}).get(Place(backend, build, mode), [])
        since = min((night for night in nights if night > shown.provenance.received), default=None)
        found.append(dataclasses.replace(cell, age=age_of(shown.when, today), missing=since))
    return sorted(
        found, key=lambda cell: (cell.backend, release(cell.build.version), cell.build.kind, cell.mode)
    )


def _before(one: Submission, earlier: Sequence[Submission]) -> Submission | None:
    """The latest earlier run that can be compared with this one: it ran to its end, at the same level."""
    if standing.of(one.leg)[0] not in ("passed", "failed"):
        return None
    for other in earlier:
        same = all(other.leg[word] == one.leg[word] for word in ("level", "samples"))
        if same and standing.of(other.leg)[0] in ("passed", "failed"):
            return other
    return None


def summary(one: Submission, before: Submission | None) -> Run:
    """A run in figures, held against the one before."""
    leg = one.leg
    totals = leg["totals"]
    planned = int(leg["planned"])
    status, _ = standing.of(leg)
    regressed: tuple[str, ...] = ()
    if before is not None:
        try:
            report = diff.compare([dict(before.leg)], [dict(leg)])
            regressed = tuple(
                change.id
                for found in report.pairs
                for change in (*found.regressed, *(() if found.excuse else found.vanished))
            )
        except UsageError:  # nothing in common
            before = None
    return Run(
        one,
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


def held(leg: Mapping[str, Any]) -> str | None:
    """The broadest level that a leg holds, where the manifest of levels knows its torch."""
    try:
        return entitlement.held(leg, _manifest())
    except UsageError:
        return None
