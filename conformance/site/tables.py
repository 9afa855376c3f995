"""Cells that later runs of this project's own workflow asked for, and of which nothing came."""

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

#: A table that is larger is not read.
_LARGEST = 8 << 20


class Place(NamedTuple):
    """A cell as the site has it."""

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
    """The nights on which a cell was asked for and left nothing that is shown; and tables that are none.

    The table of a run names cells as they were asked for; which torch that was, the newest earlier run
    tells that has something of the same cell. Nights are ordered by the publisher's clock.
    """
    shown = {(one.folder, Build.of(one.leg), str(one.leg["mode"])) for one in submissions}
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
            # What is of another torch than the cell's is told as missing, and not shown.
            told = cell["status"] != "missing" and (cell["counts"] or all(words))
            if told and (run, build, mode) in shown:
                state[name] = (Place(backend, build, mode), [])
            elif name in state:
                state[name][1].append(received)
    found: dict[Place, list[datetime.datetime]] = {}
    for place, nights in state.values():
        found.setdefault(place, []).extend(nights)
    return found, refused


def _nights(
    folder: Path, registry: Mapping[str, Backend], today: datetime.date, ours: str
) -> Iterator[tuple[datetime.datetime, str, Path]]:
    """Runs of our own workflow that have a table; also those whose results are refused."""
    for backend, run in runs(folder, registry):
        file = run / "matrix.json"
        if run.is_symlink() or not (file.exists() or file.is_symlink()):
            continue
        try:
            where = provenance.read(run / "provenance.json", backend, today, ours)
        except (UsageError, OSError):
            continue  # told where its results are read
        if where.channel == "our-workflow":
            yield where.received, backend.id, run


def _cells(file: Path) -> list[dict[str, Any]]:
    """The cells of a table. UsageError where it is none."""
    try:
        if file.is_symlink() or file.stat().st_size > _LARGEST:
            raise ValueError(f"a link, or larger than {_LARGEST >> 20} MiB")
        cells: list[dict[str, Any]] = json.loads(file.read_text())["cells"]
        if not all({"id", "mode"} <= cell["cell"].keys() and cell.keys() >= _KEYS for cell in cells):
            raise ValueError("a cell lacks something")
        return cells
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = str(error) if type(error) is ValueError else type(error).__name__
        raise UsageError(f"its matrix.json is no table of cells ({why})") from None


_KEYS = {"status", "torch", "torch_kind", "abi", "counts"}
