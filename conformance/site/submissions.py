"""Runs that lie in the folder of results: read, checked, or refused with a reason. Nothing is executed."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conformance import results
from conformance.certificate import privacy
from conformance.errors import UsageError
from conformance.site import provenance
from conformance.site.provenance import Provenance
from conformance.site.registry import Backend

#: A results file that is larger is refused.
LARGEST = 96 << 20
#: Runs of a backend that are looked at, the newest by name.
MOST = 2000
#: What a submission's clock may be ahead.
_AHEAD = datetime.timedelta(hours=26)


@dataclasses.dataclass(frozen=True)
class Submission:
    """One leg of one run of a backend, with where it comes from."""

    backend: Backend
    run: str
    leg: Mapping[str, Any]
    provenance: Provenance
    started: datetime.datetime


@dataclasses.dataclass(frozen=True)
class Refused:
    """A run that is not shown, and why."""

    place: str
    why: str


def read(
    folder: Path, registry: Mapping[str, Backend], today: datetime.date
) -> tuple[list[Submission], list[Refused]]:
    """All runs of ``folder/BACKEND/RUN``. UsageError where there is no such folder."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; name the one with a folder of runs for each backend")
    former = {name: backend for backend in registry.values() for name in backend.renamed_from}
    found: list[Submission] = []
    refused: list[Refused] = []
    for place in sorted(folder.iterdir()):
        backend = registry.get(place.name) or former.get(place.name)
        if place.is_symlink() or not place.is_dir():
            continue
        if backend is None:
            refused.append(Refused(privacy.text(place.name)[:80], "no backend of the registry has this id"))
            continue
        for run in sorted((path for path in place.iterdir()), reverse=True)[:MOST]:
            try:
                found.extend(_run(run, backend, today))
            except UsageError as error:
                refused.append(
                    Refused(f"{place.name}/{run.name}"[:120], str(error).replace(str(folder), "")[:500])
                )
    return found, refused


def _run(run: Path, backend: Backend, today: datetime.date) -> Iterator[Submission]:
    if run.is_symlink() or not run.is_dir():
        raise UsageError("it is no folder of its own")
    file = run / "results.json"
    if file.is_symlink():
        raise UsageError("its results.json is a link")
    document = results.read(file, limit=LARGEST)
    where = provenance.read(run / "provenance.json", backend, today)
    for leg in document["legs"]:
        started = _time(leg["started"])
        end_of_today = datetime.datetime.combine(today, datetime.time.max, datetime.timezone.utc)
        if started > end_of_today + _AHEAD:
            raise UsageError(f"it began on {started.date()}, which is yet to come")
        if leg["selection"] is not None or leg["shard"] != "1/1":
            raise UsageError(f"leg {leg['mode']} is a selection or a part; whole runs are shown")
        yield Submission(backend, run.name, leg, where, started)


def _time(text: str) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"it says that it began at {text[:40]!r}, which is no time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.timezone.utc)
