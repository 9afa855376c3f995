"""The site as files: pages, badges, data and assets."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.site import badges, pages, words
from conformance.site.cells import Cell
from conformance.site.cells import cells as cells_of
from conformance.site.registry import Backend
from conformance.site.submissions import Refused, read

#: Written last and looked for first: only a folder with it is ever replaced.
MARK = "data.json"


def build(
    folder: Path, output: Path, registry: Mapping[str, Backend], today: datetime.date
) -> tuple[list[Cell], list[Refused]]:
    """Make the site of a folder of results: anew each time, from what lies there and nothing else."""
    if output.exists() and any(output.iterdir()) and not (output / MARK).is_file():
        raise UsageError(f"{output} is not empty and no site; name another folder")
    submissions, refused = read(folder, registry, today)
    cells = cells_of(submissions, today)
    shutil.rmtree(output, ignore_errors=True)
    (output / "backends").mkdir(parents=True)
    (output / "badges").mkdir()
    for asset in sorted(pages.ASSETS.iterdir()):
        shutil.copyfile(asset, output / asset.name)
    (output / "index.html").write_text(pages.index(registry, cells, refused, today))
    for backend in registry.values():
        (output / "backends" / f"{backend.id}.html").write_text(pages.backend_page(backend, cells, today))
        write_badges(output / "badges", backend, cells)
    text = json.dumps(data(registry, cells, refused, today), indent=1, sort_keys=True)
    (output / MARK).write_text(text + "\n")
    return cells, refused


def write_badges(folder: Path, backend: Backend, cells: Sequence[Cell]) -> None:
    """One badge for each mode of a backend, of its newest build, and one for the backend."""
    own = [cell for cell in cells if cell.backend == backend.id]
    newest: dict[str, Cell] = {}
    for cell in own:
        newest[cell.mode] = cell  # cells are ordered by release
    for mode, cell in newest.items():
        state = words.state(cell)
        text = badges.badge(f"{backend.id} {mode}", state, f"{state}: {words.short(cell)}")
        (folder / f"{backend.id}-{mode}.svg").write_text(text)
    order = list(words.STATES)
    worst = max((words.state(cell) for cell in newest.values()), key=order.index, default="unknown")
    shown = f"{worst}, {len(newest)} modes" if newest else "no result yet"
    (folder / f"{backend.id}.svg").write_text(badges.badge(backend.id, worst, shown))


def data(
    registry: Mapping[str, Backend], cells: Sequence[Cell], refused: Sequence[Refused], today: datetime.date
) -> dict[str, Any]:
    """Everything that the pages show, for machines."""
    return {
        "schema": 1,
        "made": today.isoformat(),
        "backends": [
            {"id": backend.id, "name": backend.name, "link": backend.link, "cells": _cells(backend, cells)}
            for backend in registry.values()
        ],
        "refused": [{"place": one.place, "why": one.why} for one in refused],
    }


def _cells(backend: Backend, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    found = []
    for cell in cells:
        if cell.backend != backend.id:
            continue
        found.append(
            {
                "torch": cell.build.version,
                "kind": cell.build.kind,
                "abi": cell.build.abi,
                "mode": cell.mode,
                "state": words.state(cell),
                "age": cell.age,
                "runs": [
                    {
                        "run": run.submission.run,
                        "started": run.submission.started.isoformat(),
                        "status": run.status,
                        "level_held": run.level,
                        "level": run.submission.leg["level"],
                        "passed": run.passed,
                        "planned": run.planned,
                        "claimed": run.claimed,
                        "regressed": list(run.regressed),
                        "compared_with": run.compared_with,
                        "provenance": run.submission.provenance.channel,
                        "link": run.submission.provenance.link,
                    }
                    for run in cell.runs
                ],
            }
        )
    return found
