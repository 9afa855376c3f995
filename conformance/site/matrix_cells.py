"""Build the cells of the matrix: backend × build of torch × mode, each with its published runs."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence

from conformance.site.build_columns import Build, release_numbers
from conformance.site.provenance import CHANNELS
from conformance.site.schedules import CellKey
from conformance.site.store.published_run import PublishedRun
from conformance.site.store.series import Series

#: Ages of runs in days. A run is fresh up to age ``FRESH``, ageing up to ``STALE``, stale up to ``RETIRED``,
#: and then retired.
FRESH, STALE, RETIRED = 3, 14, 90
AGES = ("fresh", "ageing", "stale", "retired")


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of the matrix.

    ``runs`` are the published runs of the cell, the newest first, and ``age`` is the age of the displayed
    run. ``missing`` is the time of the first schedule without a result since the displayed run, if any.
    ``line`` is the series of the runs, with their results.
    """

    backend: str
    build: Build
    mode: str
    runs: tuple[PublishedRun, ...]
    age: str
    missing: datetime.datetime | None = None
    line: Series | None = None

    @property
    def newest(self) -> PublishedRun:
        """The displayed run: the newest run of the most trusted channel among the recent runs."""
        latest = self.runs[0].time_for_order
        recent = [run for run in self.runs if (latest - run.time_for_order).days <= STALE]
        order = list(CHANNELS)
        return min(recent, key=lambda run: order.index(run.provenance.channel))


def run_age(when: datetime.datetime, today: datetime.date) -> str:
    """Return the age of a run, one of ``AGES``."""
    days = (today - when.date()).days
    return AGES[sum(days > limit for limit in (FRESH, STALE, RETIRED))]


def cells(
    lines: Iterable[Series],
    today: datetime.date,
    missing: Mapping[CellKey, Sequence[datetime.datetime]] | None = None,
) -> list[Cell]:
    """Return one cell for each series of the store.

    ``missing`` maps cell keys to schedules without a result (:mod:`conformance.site.schedules`).
    """
    site_cells = []
    for line in lines:
        build = line.published_runs[-1].build
        cell = Cell(line.backend, build, line.mode, tuple(reversed(line.published_runs)), "", line=line)
        newest_run = cell.newest
        nights = (missing or {}).get(CellKey(line.backend, build, line.mode), [])
        since = min((night for night in nights if night > newest_run.provenance.received), default=None)
        site_cells.append(
            dataclasses.replace(cell, age=run_age(newest_run.time_for_order, today), missing=since)
        )
    return sorted(
        site_cells,
        key=lambda cell: (cell.backend, release_numbers(cell.build.version), cell.build.kind, cell.mode),
    )
