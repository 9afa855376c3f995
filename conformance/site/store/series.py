"""A line of the store: the nights of one backend in one mode on one build, in the order of their time."""

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
#: Nights of which all are kept, and those of which one a week is kept, in days; of older ones one a month.
ALL, WEEKLY = 30, 180


@dataclasses.dataclass
class Entry:
    """A night, and what changed since the one before it; ``settled`` if it is compared with that."""

    night: PublishedRun
    change: TableDelta
    is_compared: bool = True


@dataclasses.dataclass
class Series:
    """The nights of one backend, mode and build, the oldest first."""

    backend: str
    mode: str
    entries: list[Entry] = dataclasses.field(default_factory=list)

    @property
    def nights(self) -> list[PublishedRun]:
        """The nights, the oldest first."""
        return [entry.night for entry in self.entries]

    def tables(self) -> Iterator[tuple[PublishedRun, VerdictTable]]:
        """Yield each night with its table, which the next step changes."""
        table = VerdictTable()
        for entry in self.entries:
            table.apply(entry.change)
            yield entry.night, table

    def table_of(self, run: PublishedRun) -> VerdictTable:
        """The table of one of the nights."""
        table = VerdictTable()
        for entry in self.entries:
            table.apply(entry.change)
            if entry.night is run:
                return table
        raise ValueError(f"{self.backend}, {self.mode}, has no run {run.run}")

    def add(self, run: PublishedRun, table: VerdictTable) -> None:
        """Put a night in its place in time; :meth:`settle` compares it."""
        # Of runs with one time the name decides, whichever arrives first.
        moment = (run.when, run.run)
        position = sum((entry.night.when, entry.night.run) <= moment for entry in self.entries)
        before = VerdictTable()
        for entry in self.entries[:position]:
            before.apply(entry.change)
        if position < len(self.entries):
            after = before.copy()
            after.apply(self.entries[position].change)
            self.entries[position].change = TableDelta.between(table, after)
        self.entries.insert(position, Entry(run, TableDelta.between(before, table), is_compared=False))
        later = (entry for entry in self.entries[position + 1 :] if entry.night.comparable(run))
        if (following := next(later, None)) is not None:
            following.is_compared = False

    def compare_pending(self) -> None:
        """Compare each new night, and the next one after it, with the last one before that fits."""
        ran: list[tuple[PublishedRun, VerdictTable]] = []
        table = VerdictTable()
        for entry in self.entries:
            table.apply(entry.change)
            earlier = next(
                (candidate for candidate in reversed(ran) if entry.night.comparable(candidate[0])), None
            )
            if not entry.is_compared and earlier is not None:
                entry.night = entry.night.compared(list(table.rows()), earlier[0], list(earlier[1].rows()))
            entry.is_compared = True
            if entry.night.ran:
                ran = [candidate for candidate in ran if not candidate[0].comparable(entry.night)]
                ran.append((entry.night, table.copy()))

    def thin(self, today: datetime.date) -> None:
        """Drop nights that are old: of those over 30 days one a week is kept, over 180 days one a month.

        Of each period and channel the last night stays that ran to its end, or the last one. A kept night is
        compared with the kept one before it.
        """
        kept_entries = self._entries_to_keep(today)
        if len(kept_entries) == len(self.entries):
            return
        runs = {entry.night.run for entry in kept_entries}
        thinned: list[Entry] = []
        change = TableDelta()
        for entry in self.entries:
            change = change.then(entry.change)
            if any(entry is kept_entry for kept_entry in kept_entries):
                whole = entry.night.compared_with is None or entry.night.compared_with in runs
                thinned.append(Entry(entry.night, change, is_compared=whole and entry.is_compared))
                change = TableDelta()
        self.entries = thinned
        self.compare_pending()

    def _entries_to_keep(self, today: datetime.date) -> list[Entry]:
        periods: dict[tuple[object, ...], Entry] = {}
        for entry in self.entries:
            key = (*_period(entry.night, today), entry.night.provenance.channel)
            if key not in periods or entry.night.ran or not periods[key].night.ran:
                periods[key] = entry
        return list(periods.values())

    def write(self, file: Path) -> None:
        """Write the line, a night on each line of the file; unchanged nights keep their bytes."""
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
        """Read a line; UsageError if the file is not one."""
        try:
            head, *lines = file.read_text().splitlines()
            header = json.loads(head)
            if header["schema"] != SCHEMA:
                raise ValueError(f"its schema is {header['schema']!r}; this version reads {SCHEMA}")
            entries = [
                Entry(PublishedRun.from_json(data["night"]), TableDelta.from_json(data["change"]))
                for data in map(json.loads, lines)
            ]
            return Series(str(header["backend"]), str(header["mode"]), entries)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            why = str(error) if type(error) is ValueError else repr(error)[:200]
            raise UsageError(
                f"{file} is no line of the store ({why}); make the store anew from the results"
            ) from None


def _period(run: PublishedRun, today: datetime.date) -> tuple[object, ...]:
    """The stretch of time of which one night is kept; of a young night, the night itself."""
    day = run.when.date()
    age = (today - day).days
    if age <= ALL:
        return (run.when, run.run)
    return (day.year, day.month) if age > WEEKLY else tuple(day.isocalendar())[:2]
