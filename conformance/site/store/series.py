"""A series of the store: the published runs of one backend, mode and build, ordered by time."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterator
from pathlib import Path

from conformance.errors import UsageError
from conformance.site.store.published_run import PublishedRun
from conformance.site.store.verdict_table import TableDelta, VerdictTable

SCHEMA = 1
#: Ages of runs in days. The store keeps all runs up to age ``ALL``, one run per week up to age ``WEEKLY``,
#: and one run per month of older runs.
ALL, WEEKLY = 30, 180


@dataclasses.dataclass
class SeriesEntry:
    """A published run, and the delta from the verdict table of the previous run to the table of this run.

    ``is_compared`` is False until :meth:`Series.compare_pending` has computed the regressions of the run.
    """

    night: PublishedRun
    change: TableDelta
    is_compared: bool = True


@dataclasses.dataclass
class Series:
    """The published runs of one backend, mode and build, the oldest first."""

    backend: str
    mode: str
    entries: list[SeriesEntry] = dataclasses.field(default_factory=list)

    @property
    def published_runs(self) -> list[PublishedRun]:
        """The published runs, the oldest first."""
        return [entry.night for entry in self.entries]

    def tables(self) -> Iterator[tuple[PublishedRun, VerdictTable]]:
        """Yield each run with its verdict table.

        The table is one object that changes with each run: copy it to keep it.
        """
        table = VerdictTable()
        for entry in self.entries:
            table.apply_delta(entry.change)
            yield entry.night, table

    def table_of(self, run: PublishedRun) -> VerdictTable:
        """Return the verdict table of one of the runs."""
        table = VerdictTable()
        for entry in self.entries:
            table.apply_delta(entry.change)
            if entry.night is run:
                return table
        raise ValueError(f"{self.backend}, {self.mode}, has no run {run.run}")

    def add(self, run: PublishedRun, table: VerdictTable) -> None:
        """Insert a run in time order. The caller must call :meth:`compare_pending` afterwards."""
        # Runs with equal times are ordered by name, so that the order of arrival does not matter.
        moment = (run.time_for_order, run.run)
        position = sum((entry.night.time_for_order, entry.night.run) <= moment for entry in self.entries)
        before = VerdictTable()
        for entry in self.entries[:position]:
            before.apply_delta(entry.change)
        if position < len(self.entries):
            after = before.copy()
            after.apply_delta(self.entries[position].change)
            self.entries[position].change = TableDelta.between(table, after)
        self.entries.insert(position, SeriesEntry(run, TableDelta.between(before, table), is_compared=False))
        later = (entry for entry in self.entries[position + 1 :] if entry.night.is_comparable_with(run))
        if (following := next(later, None)) is not None:
            following.is_compared = False

    def compare_pending(self) -> None:
        """Compute the regressions of all pending runs, each against its newest comparable predecessor."""
        ran: list[tuple[PublishedRun, VerdictTable]] = []
        table = VerdictTable()
        for entry in self.entries:
            table.apply_delta(entry.change)
            earlier = next(
                (candidate for candidate in reversed(ran) if entry.night.is_comparable_with(candidate[0])),
                None,
            )
            if not entry.is_compared and earlier is not None:
                entry.night = entry.night.with_regressions_since(
                    list(table.rows()), earlier[0], list(earlier[1].rows())
                )
            entry.is_compared = True
            if entry.night.is_complete:
                ran = [candidate for candidate in ran if not candidate[0].is_comparable_with(entry.night)]
                ran.append((entry.night, table.copy()))

    def remove_old_runs(self, today: datetime.date) -> None:
        """Remove old runs: keep one run per week after 30 days, and one run per month after 180 days.

        For each period and channel the last complete run stays, or the last run if none is complete. If the
        run with which a remaining run was compared is removed, the remaining run is compared again.
        """
        kept_entries = self._entries_to_keep(today)
        if len(kept_entries) == len(self.entries):
            return
        runs = {entry.night.run for entry in kept_entries}
        thinned: list[SeriesEntry] = []
        change = TableDelta()
        for entry in self.entries:
            change = change.combined_with(entry.change)
            if any(entry is kept_entry for kept_entry in kept_entries):
                whole = entry.night.compared_with is None or entry.night.compared_with in runs
                thinned.append(SeriesEntry(entry.night, change, is_compared=whole and entry.is_compared))
                change = TableDelta()
        self.entries = thinned
        self.compare_pending()

    def _entries_to_keep(self, today: datetime.date) -> list[SeriesEntry]:
        periods: dict[tuple[object, ...], SeriesEntry] = {}
        for entry in self.entries:
            key = (*_period_with_one_kept_run(entry.night, today), entry.night.provenance.channel)
            if key not in periods or entry.night.is_complete or not periods[key].night.is_complete:
                periods[key] = entry
        return list(periods.values())

    def write(self, file: Path) -> None:
        """Write the series with one run per line of the file. The bytes of unchanged runs stay equal."""
        head = {"schema": SCHEMA, "backend": self.backend, "mode": self.mode}
        lines = [json.dumps(head, sort_keys=True)]
        lines += [
            json.dumps(
                {"night": entry.night.to_json(), "change": entry.change.to_json()},
                sort_keys=True,
                separators=(",", ":"),
            )
            for entry in self.entries
        ]
        scratch = file.with_name(f"{file.name}.part")
        scratch.write_text("\n".join(lines) + "\n")
        scratch.replace(file)

    @staticmethod
    def read(file: Path) -> Series:
        """Read a series. Raise UsageError if the file is not a valid series."""
        try:
            head, *lines = file.read_text().splitlines()
            header = json.loads(head)
            if header["schema"] != SCHEMA:
                raise ValueError(
                    f"its schema is {header['schema']!r}; this version of the suite reads {SCHEMA}"
                )
            entries = [
                SeriesEntry(PublishedRun.from_json(data["night"]), TableDelta.from_json(data["change"]))
                for data in map(json.loads, lines)
            ]
            return Series(str(header["backend"]), str(header["mode"]), entries)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            why = str(error) if type(error) is ValueError else repr(error)[:200]
            raise UsageError(
                f"{file} is not a valid series of the store ({why}); recreate the store from the results"
            ) from None


def _period_with_one_kept_run(run: PublishedRun, today: datetime.date) -> tuple[object, ...]:
    """Return the period of a run. One run of each period is kept. Each run up to age ``ALL`` has its own
    period.
    """
    day = run.time_for_order.date()
    age = (today - day).days
    if age <= ALL:
        return (run.time_for_order, run.run)
    return (day.year, day.month) if age > WEEKLY else tuple(day.isocalendar())[:2]
