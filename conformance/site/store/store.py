"""The store of the site: series, schedules and refused runs, updated from the results folder run by run."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from conformance.errors import UsageError
from conformance.site import schedules as tables
from conformance.site import submissions
from conformance.site.build_columns import Build
from conformance.site.registry import Backend
from conformance.site.schedules import CellKey, Schedule
from conformance.site.store.published_run import PublishedRun
from conformance.site.store.series import SCHEMA, Series
from conformance.site.store.verdict_table import VerdictTable
from conformance.site.submissions import RefusedRun

#: The file that marks a folder as a store. The file contains the data that does not belong to a series.
MARK = "store.json"
_SCHEDULES = "schedules.jsonl"
#: The number of days for which schedules are stored, and the maximum number of stored refused runs.
_KEPT, _REFUSED = 180, 500

#: The key of a series: backend, build and mode.
Key = tuple[str, Build, str]


@dataclasses.dataclass
class Store:
    """All series by key. ``stored_runs`` are the runs that were added, as ``BACKEND/RUN``."""

    lines: dict[Key, Series] = dataclasses.field(default_factory=dict)
    schedules: list[Schedule] = dataclasses.field(default_factory=list)
    refused: list[RefusedRun] = dataclasses.field(default_factory=list)
    stored_runs: set[str] = dataclasses.field(default_factory=set)
    #: The series that differ from their files.
    changed: set[Key] = dataclasses.field(default_factory=set)
    #: The series whose files must be removed.
    removed: set[Key] = dataclasses.field(default_factory=set)

    def add_results(
        self, folder: Path, registry: Mapping[str, Backend], today: datetime.date, own_repository: str = ""
    ) -> int:
        """Add the new runs of a results folder to the store, and return their number.

        A refused run is checked again at the next call, because the registry, the repository name or the date
        may have caused the refusal. Raise UsageError if the folder does not exist.
        """
        self.rename_backends(registry)
        new = set()
        refused: list[RefusedRun] = []
        for legs in submissions.read_submissions(
            folder, registry, today, refused, own_repository, self.stored_runs
        ):
            label = submissions.run_label(legs[0].folder)
            try:
                nights = [
                    (PublishedRun.from_submission(leg), VerdictTable.from_rows(leg.leg["results"]))
                    for leg in legs
                ]
            except (
                Exception
            ) as error:  # an error in one submission must not prevent the display of the others
                refused.append(RefusedRun(label, f"it cannot be summarised ({type(error).__name__})"))
                continue
            for run, table in nights:
                self._add_run(legs[0].backend.id, run, table)
            new.add(label)
        for key in self.changed:
            self.lines[key].compare_pending()
        known_runs = self.stored_runs | {f"{schedule.backend}/{schedule.run}" for schedule in self.schedules}
        schedules, unread = tables.read_schedules(folder, registry, today, own_repository, known_runs)
        self.schedules += schedules
        self.refused = [*refused, *unread]
        self.stored_runs |= new
        return len(new)

    def _add_run(self, backend: str, run: PublishedRun, table: VerdictTable) -> None:
        key = (backend, run.build, run.mode)
        line = self.lines.setdefault(key, Series(backend, run.mode))
        # An interrupted write may have stored the run already.
        if all(earlier_run.run != run.run for earlier_run in line.published_runs):
            line.add(run, table)
            self.changed.add(key)

    def rename_backends(self, registry: Mapping[str, Backend]) -> None:
        """Replace the former backend ids of series and schedules by the current ids."""
        former = {name: backend.id for backend in registry.values() for name in backend.renamed_from}
        for key in [key for key in self.lines if key[0] in former and key[0] not in registry]:
            line = self.lines.pop(key)
            self.changed.discard(key)
            self.removed.add(key)
            for run, table in line.tables():
                self._add_run(former[key[0]], run, table.copy())
        self.schedules = [
            dataclasses.replace(schedule, backend=former.get(schedule.backend, schedule.backend))
            if schedule.backend not in registry
            else schedule
            for schedule in self.schedules
        ]

    def remove_old_runs(self, today: datetime.date) -> None:
        """Remove old runs (see :meth:`Series.remove_old_runs`), and schedules older than half a year."""
        for key, line in self.lines.items():
            before = len(line.entries)
            line.remove_old_runs(today)
            if len(line.entries) != before:
                self.changed.add(key)
        oldest = datetime.datetime.combine(today, datetime.time(), datetime.timezone.utc)
        oldest -= datetime.timedelta(days=_KEPT)
        self.schedules = [schedule for schedule in self.schedules if schedule.received >= oldest]

    def missing(self) -> dict[CellKey, list[datetime.datetime]]:
        """Return, for each cell, the times of the scheduled runs for which the site displays no result."""
        shown_runs = {
            (backend, run.run, build, mode)
            for (backend, build, mode), line in self.lines.items()
            for run in line.published_runs
        }
        return tables.missing_cells(self.schedules, shown_runs)

    def write(self, folder: Path) -> None:
        """Write the changed series, the schedules and the refused runs into a folder.

        Raise UsageError if the folder is not a store, or cannot be written.
        """
        check_store_folder(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / MARK).exists():
                _write_atomically(folder / MARK, _head_json(set(), []))
            for key in self.removed:
                (folder / _file_name(key)).unlink(missing_ok=True)
            for key in sorted(self.changed, key=str):
                file = folder / _file_name(key)
                file.parent.mkdir(exist_ok=True)
                self.lines[key].write(file)
            lines = [
                json.dumps({"backend": schedule.backend, **schedule.to_json()}, sort_keys=True)
                for schedule in sorted(
                    self.schedules, key=lambda schedule: (schedule.received, schedule.backend, schedule.run)
                )
            ]
            _write_atomically(folder / _SCHEDULES, "".join(f"{line}\n" for line in lines))
            # Write this file last: it lists the stored runs, and a run is stored only after all of its series
            # were written.
            _write_atomically(folder / MARK, _head_json(self.stored_runs, self.refused))
        except OSError as error:
            raise UsageError(
                f"the store {folder} cannot be written ({error.strerror}); choose another folder"
            ) from None
        self.changed.clear()
        self.removed.clear()

    @staticmethod
    def read(folder: Path) -> Store:
        """Read a store. A missing or empty folder is an empty store.

        Raise UsageError if the folder is not a valid store.
        """
        check_store_folder(folder)
        if not (folder / MARK).exists():
            return Store()
        store = Store()
        try:
            head = json.loads((folder / MARK).read_text())
            if head["schema"] != SCHEMA:
                raise ValueError(
                    f"its schema is {head['schema']!r}; this version of the suite reads {SCHEMA}"
                )
            store.stored_runs = set(map(str, head["seen"]))
            store.refused = [
                RefusedRun(str(refusal["place"]), str(refusal["why"])) for refusal in head["refused"]
            ]
            schedules = folder / _SCHEDULES
            for text in schedules.read_text().splitlines() if schedules.exists() else ():
                data = json.loads(text)
                store.schedules.append(Schedule.from_json(str(data["backend"]), data))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise UsageError(
                f"{folder} is not a readable store ({error}); recreate it from the results"
            ) from None
        for file in sorted(folder.glob("*/*.jsonl")):
            line = Series.read(file)
            if line.entries:
                store.lines[(line.backend, line.published_runs[-1].build, line.mode)] = line
        return store


def check_store_folder(folder: Path) -> None:
    """Raise UsageError if a path exists and is neither an empty folder nor a store."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is not a folder; choose another folder for the store")
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise UsageError(f"{folder} is neither empty nor a store; choose another folder")
    if folder.exists() and (links := [path for path in folder.rglob("*") if path.is_symlink()]):
        raise UsageError(
            f"{links[0]} is a link, which a store must not contain; recreate the store from the results"
        )


def replace_store(folder: Path, store: Store) -> None:
    """Replace the store in a folder. Raise UsageError if the folder is not a store."""
    check_store_folder(folder)
    scratch = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    store.write(scratch)
    if folder.exists():
        shutil.rmtree(folder)
    scratch.rename(folder)


def _head_json(stored_runs: set[str], refused: Sequence[RefusedRun]) -> str:
    head = {
        "schema": SCHEMA,
        "seen": sorted(stored_runs),
        "refused": [dataclasses.asdict(refusal) for refusal in refused[:_REFUSED]],
    }
    return json.dumps(head, indent=0, sort_keys=True) + "\n"


def _write_atomically(file: Path, text: str) -> None:
    """Write a file atomically."""
    scratch = file.with_name(f"{file.name}.part")
    scratch.write_text(text)
    scratch.replace(file)


def _file_name(key: Key) -> str:
    backend, build, mode = key
    # Two builds may have the same slug, so the name contains a digest.
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:8]
    return f"{backend}/{re.sub('[^a-z0-9-]+', '-', mode)[:40]}@{build.slug}-{digest}.jsonl"


def sorted_keys(store: Store) -> Iterator[Key]:
    """Return the keys of all series, sorted by backend, mode and build."""
    return iter(sorted(store.lines, key=lambda key: (key[0], key[2], key[1].slug)))
