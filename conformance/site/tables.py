"""Cells that later runs of this project's own workflow scheduled but produced no result for."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from conformance.errors import UsageError
from conformance.site import provenance
from conformance.site.columns import Build
from conformance.site.registry import Backend
from conformance.site.submissions import Refused, Submission, place_of, runs

#: A larger table is not read; in bytes.
_LARGEST = 8 << 20


class Place(NamedTuple):
    """The key of a cell on the site."""

    backend: str
    build: Build
    mode: str


def missing(
    folder: Path,
    registry: Mapping[str, Backend],
    submissions: Sequence[Submission],
    today: datetime.date,
    ours: str = "",
) -> tuple[dict[Place, list[datetime.datetime]], list[Refused]]:
    """Find the nights on which a cell was scheduled and left nothing that is shown; and unreadable tables.

    The table of a run names cells by the requested build; the actual torch is known from the newest earlier
    run that has a result of the same cell. Nights are ordered by the publisher's clock.
    """
    shown = {(run.folder, Build.of(run.leg), str(run.leg["mode"])) for run in submissions}
    state: dict[tuple[str, str], tuple[Place, list[datetime.datetime]]] = {}
    refused: list[Refused] = []
    for received, backend, run in sorted(_nights(folder, registry, today, ours)):
        try:
            cells = _cells(run / "matrix.json")
        except UsageError as error:
            refused.append(Refused(place_of(run), str(error)))
            continue
        for cell in cells:
            name = (backend, str(cell["cell"]["id"]))
            words = [cell[word] for word in ("torch", "torch_kind", "abi")]
            build, mode = Build.named(*words), str(cell["cell"]["mode"])
            # A result on another torch than the cell's has status missing, and is not shown.
            has_result = cell["status"] != "missing" and (cell["counts"] or all(words))
            if has_result and (run, build, mode) in shown:
                state[name] = (Place(backend, build, mode), [])
            elif name in state:
                state[name][1].append(received)
    by_place: dict[Place, list[datetime.datetime]] = {}
    for place, nights in state.values():
        by_place.setdefault(place, []).extend(nights)
    return by_place, refused


def _nights(
    folder: Path, registry: Mapping[str, Backend], today: datetime.date, ours: str
) -> Iterator[tuple[datetime.datetime, str, Path]]:
    """List the runs of our own workflow that have a table, those with refused results included."""
    for backend, run in runs(folder, registry):
        file = run / "matrix.json"
        if run.is_symlink() or not (file.exists() or file.is_symlink()):
            continue
        try:
            origin = provenance.read(run / "provenance.json", backend, today, ours)
        except (UsageError, OSError):
            continue  # reading its results reports this
        if origin.channel == "our-workflow":
            yield origin.received, backend.id, run


def _cells(file: Path) -> list[dict[str, Any]]:
    """Read the cells of a table. UsageError if the file is not a table."""
    try:
        if file.is_symlink() or file.stat().st_size > _LARGEST:
            raise ValueError(f"a link, or larger than {_LARGEST >> 20} MiB")
        cells: list[dict[str, Any]] = json.loads(file.read_text())["cells"]
        if not all({"id", "mode"} <= cell["cell"].keys() and cell.keys() >= _KEYS for cell in cells):
            raise ValueError("a cell lacks something")
        return cells
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = str(error) if type(error) is ValueError else type(error).__name__
        raise UsageError(f"its matrix.json is not a table of cells ({why})") from None


_KEYS = {"status", "torch", "torch_kind", "abi", "counts"}
