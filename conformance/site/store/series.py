"""A line of the store: the nights of one backend in one mode on one build, in the order of their time."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterator
from pathlib import Path

from conformance.errors import UsageError
from conformance.site.store.published_run import Night
from conformance.site.store.verdict_table import Table, TableDelta

SCHEMA = 1
#: Nights of which all are kept, and those of which one a week is kept, in days; of older ones one a month.
ALL, WEEKLY = 30, 180


@dataclasses.dataclass
class Entry:
    """A night, and what changed since the one before it; ``settled`` if it is compared with that."""

    night: Night
    change: TableDelta
    settled: bool = True


@dataclasses.dataclass
class Line:
    """The nights of one backend, mode and build, the oldest first."""

    backend: str
    mode: str
    entries: list[Entry] = dataclasses.field(default_factory=list)

    @property
    def nights(self) -> list[Night]:
        """The nights, the oldest first."""
        return [entry.night for entry in self.entries]

    def tables(self) -> Iterator[tuple[Night, Table]]:
        """Yield each night with its table, which the next step changes."""
        table = Table()
        for entry in self.entries:
            table.apply(entry.change)
            yield entry.night, table

    def table_of(self, night: Night) -> Table:
        """The table of one of the nights."""
        table = Table()
        for entry in self.entries:
            table.apply(entry.change)
            if entry.night is night:
                return table
        raise ValueError(f"{self.backend}, {self.mode}, has no run {night.run}")

    def add(self, night: Night, table: Table) -> None:
        """Put a night in its place in time; :meth:`settle` compares it."""
        # Of runs with one time the name decides, whichever arrives first.
        moment = (night.when, night.run)
        place = sum((entry.night.when, entry.night.run) <= moment for entry in self.entries)
        before = Table()
        for entry in self.entries[:place]:
            before.apply(entry.change)
        if place < len(self.entries):
            after = before.copy()
            after.apply(self.entries[place].change)
            self.entries[place].change = TableDelta.between(table, after)
        self.entries.insert(place, Entry(night, TableDelta.between(before, table), settled=False))
        later = (entry for entry in self.entries[place + 1 :] if entry.night.comparable(night))
        if (following := next(later, None)) is not None:
            following.settled = False

    def settle(self) -> None:
        """Compare each new night, and the next one after it, with the last one before that fits."""
        ran: list[tuple[Night, Table]] = []
        table = Table()
        for entry in self.entries:
            table.apply(entry.change)
            fitting = next((one for one in reversed(ran) if entry.night.comparable(one[0])), None)
            if not entry.settled and fitting is not None:
                entry.night = entry.night.compared(list(table.rows()), fitting[0], list(fitting[1].rows()))
            entry.settled = True
            if entry.night.ran:
                ran = [one for one in ran if not one[0].comparable(entry.night)]
                ran.append((entry.night, table.copy()))

    def thin(self, today: datetime.date) -> None:
        """Drop nights that are old: of those over 30 days one a week is kept, over 180 days one a month.

        Of each period and channel the last night stays that ran to its end, or the last one. A kept night is
        compared with the kept one before it.
        """
        kept = self._kept(today)
        if len(kept) == len(self.entries):
            return
        runs = {entry.night.run for entry in kept}
        thinned: list[Entry] = []
        change = TableDelta()
        for entry in self.entries:
            change = change.then(entry.change)
            if any(entry is one for one in kept):
                whole = entry.night.compared_with is None or entry.night.compared_with in runs
                thinned.append(Entry(entry.night, change, settled=whole and entry.settled))
                change = TableDelta()
        self.entries = thinned
        self.settle()

    def _kept(self, today: datetime.date) -> list[Entry]:
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
    def read(file: Path) -> Line:
        """Read a line; UsageError if the file is not one."""
        try:
            head, *lines = file.read_text().splitlines()
            words = json.loads(head)
            if words["schema"] != SCHEMA:
                raise ValueError(f"its schema is {words['schema']!r}; this version reads {SCHEMA}")
            entries = [
                Entry(Night.from_json(data["night"]), TableDelta.from_json(data["change"]))
                for data in map(json.loads, lines)
            ]
            return Line(str(words["backend"]), str(words["mode"]), entries)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            why = str(error) if type(error) is ValueError else repr(error)[:200]
            raise UsageError(
                f"{file} is no line of the store ({why}); make the store anew from the results"
            ) from None


def _period(night: Night, today: datetime.date) -> tuple[object, ...]:
    """The stretch of time of which one night is kept; of a young night, the night itself."""
    day = night.when.date()
    age = (today - day).days
    if age <= ALL:
        return (night.when, night.run)
    return (day.year, day.month) if age > WEEKLY else tuple(day.isocalendar())[:2]
