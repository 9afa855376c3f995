"""Read the cells that this project's workflow scheduled, and find the cells without a result."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from conformance.errors import UsageError
from conformance.site import provenance
from conformance.site.build_columns import Build
from conformance.site.registry import Backend
from conformance.site.submissions import RefusedRun, printable_text, run_folders, run_label

#: The maximum size of a table in bytes.
_LARGEST = 8 << 20


class CellKey(NamedTuple):
    """The key of a cell on the site."""

    backend: str
    build: Build
    mode: str


class ScheduledCell(NamedTuple):
    """A cell that a workflow run scheduled. ``has_result`` is True if the run has a result for it."""

    id: str
    mode: str
    build: Build
    has_result: bool


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The cells that one run of this project's workflow scheduled, and the time at which the run was
    received.
    """

    backend: str
    run: str
    received: datetime.datetime
    cells: tuple[ScheduledCell, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the schedule as JSON without its backend."""
        cells = [[cell.id, cell.mode, dataclasses.asdict(cell.build), cell.has_result] for cell in self.cells]
        return {"run": self.run, "received": self.received.isoformat(), "cells": cells}

    @staticmethod
    def from_json(backend: str, data: Mapping[str, Any]) -> Schedule:
        """Return the schedule of ``backend`` that :meth:`to_json` converted to ``data``."""
        cells = [ScheduledCell(name, mode, Build(**build), has) for name, mode, build, has in data["cells"]]
        received = datetime.datetime.fromisoformat(data["received"])
        return Schedule(backend, str(data["run"]), received, tuple(cells))


def read_schedules(
    folder: Path,
    registry: Mapping[str, Backend],
    today: datetime.date,
    own_repository: str,
    known_runs: Container[str] = (),
) -> tuple[list[Schedule], list[RefusedRun]]:
    """Read the schedules of all workflow runs except ``known_runs`` (``BACKEND/RUN``).

    Return the schedules, and the runs whose table is invalid.
    """
    schedules, refused = [], []
    for received, backend, run in sorted(_workflow_runs(folder, registry, today, own_repository)):
        if run_label(run) in known_runs:
            continue
        try:
            cells = _read_cell_table(run / "matrix.json")
        except UsageError as error:
            refused.append(RefusedRun(run_label(run), str(error)))
            continue
        schedules.append(
            Schedule(backend, printable_text(run.name), received, tuple(map(_scheduled_cell, cells)))
        )
    return schedules, refused


def _scheduled_cell(cell: Mapping[str, Any]) -> ScheduledCell:
    torch_facts = [cell[key] for key in ("torch", "torch_kind", "abi")]
    # A cell that ran on a torch other than requested has the status ``missing``; its result is not displayed.
    has_result = cell["status"] != "missing" and bool(cell["counts"] or all(torch_facts))
    return ScheduledCell(
        str(cell["cell"]["id"])[:200],
        str(cell["cell"]["mode"])[:40],
        Build.from_untrusted_values(*torch_facts),
        has_result,
    )


def missing_cells(
    schedules: Sequence[Schedule], shown_runs: Set[tuple[str, str, Build, str]]
) -> dict[CellKey, list[datetime.datetime]]:
    """Return, for each cell, the times of the schedules that left no displayed result.

    ``shown_runs`` contains the backend, run, build and mode of every displayed run. A schedule names only the
    requested build. The installed torch is taken from the newest earlier run with a result of the same cell.
    Schedules are ordered by the time at which the publisher received them.
    """
    state: dict[tuple[str, str], tuple[CellKey, list[datetime.datetime]]] = {}
    for schedule in sorted(
        schedules, key=lambda schedule: (schedule.received, schedule.backend, schedule.run)
    ):
        for cell in schedule.cells:
            name = (schedule.backend, cell.id)
            if cell.has_result and (schedule.backend, schedule.run, cell.build, cell.mode) in shown_runs:
                state[name] = (CellKey(schedule.backend, cell.build, cell.mode), [])
            elif name in state:
                state[name][1].append(schedule.received)
    by_place: dict[CellKey, list[datetime.datetime]] = {}
    for cell_key, nights in state.values():
        by_place.setdefault(cell_key, []).extend(nights)
    return by_place


def _workflow_runs(
    folder: Path, registry: Mapping[str, Backend], today: datetime.date, own_repository: str
) -> Iterator[tuple[datetime.datetime, str, Path]]:
    """Yield the time, backend and folder of each run of this project's workflow that has a table.

    Runs with refused results are included.
    """
    for backend, run in run_folders(folder, registry):
        file = run / "matrix.json"
        if run.is_symlink() or not (file.exists() or file.is_symlink()):
            continue
        try:
            origin = provenance.read_provenance(run / "provenance.json", backend, today, own_repository)
        except (UsageError, OSError):
            continue  # read_submissions reports this error
        if origin.channel == "our-workflow":
            yield origin.received, backend.id, run


def _read_cell_table(file: Path) -> list[dict[str, Any]]:
    """Return the cells of a table. Raise UsageError if the file is not a valid table."""
    try:
        if file.is_symlink() or file.stat().st_size > _LARGEST:
            raise ValueError(f"a link, or larger than {_LARGEST >> 20} MiB")
        cells: list[dict[str, Any]] = json.loads(file.read_text())["cells"]
        if not all({"id", "mode"} <= cell["cell"].keys() and cell.keys() >= _KEYS for cell in cells):
            raise ValueError("a cell lacks a key")
        return cells
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = str(error) if type(error) is ValueError else type(error).__name__
        raise UsageError(f"its matrix.json is not a table of cells ({why})") from None


_KEYS = {"status", "torch", "torch_kind", "abi", "counts"}
