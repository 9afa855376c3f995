"""Cells of which the last run of this project's own workflow has left nothing."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from conformance.site.submissions import Submission

#: A table that is larger is not read.
_LARGEST = 1 << 20


class Place(NamedTuple):
    """A cell as the site has it: the torch that ran, by version and kind."""

    backend: str
    torch: str
    kind: str
    mode: str


def silent(submissions: Sequence[Submission]) -> dict[Place, datetime.datetime]:
    """When a run of this project's workflow last left nothing of a cell, where none has since.

    The table of a run names cells as they were asked for; which torch that was, the newest earlier run
    tells that has results of the same cell.
    """
    runs: dict[tuple[str, Path], datetime.datetime] = {}
    for one in submissions:
        if one.provenance.channel == "our-workflow":
            key = (one.backend.id, one.folder)
            runs[key] = min(runs.get(key, one.started), one.started)
    last: dict[tuple[str, str], Place] = {}
    found: dict[Place, datetime.datetime] = {}
    for (backend, folder), started in sorted(runs.items(), key=lambda item: item[1]):
        for cell in _cells(folder / "matrix.json"):
            name = (backend, str(cell["cell"]["id"]))
            if cell["status"] != "missing" and cell["torch"]:
                place = Place(backend, str(cell["torch"]), str(cell["torch_kind"]), str(cell["cell"]["mode"]))
                last[name] = place
                found.pop(place, None)
            elif name in last:
                found[last[name]] = started
    return found


def _cells(file: Path) -> list[dict[str, Any]]:
    """The cells of a table; none where it is none: the run's results stand without it."""
    try:
        if file.is_symlink() or file.stat().st_size > _LARGEST:
            return []
        cells = json.loads(file.read_text())["cells"]
        return [cell for cell in cells if {"id", "mode"} <= cell["cell"].keys() and cell.keys() >= _KEYS]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


_KEYS = {"status", "torch", "torch_kind"}
