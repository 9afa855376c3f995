"""Cells that later runs of this project's own workflow asked for, and of which nothing came."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from conformance.errors import UsageError
from conformance.site.columns import Build
from conformance.site.submissions import Refused, Submission

#: A table that is larger is not read.
_LARGEST = 8 << 20


class Place(NamedTuple):
    """A cell as the site has it."""

    backend: str
    build: Build
    mode: str


def missing(
    submissions: Sequence[Submission],
) -> tuple[dict[Place, datetime.datetime], list[Refused]]:
    """Since which night a cell is asked for and leaves nothing; and the tables that cannot be read.

    The table of a run names cells as they were asked for; which torch that was, the newest earlier run
    tells that has results of the same cell. Nights are ordered by the publisher's clock.
    """
    nights: dict[tuple[datetime.datetime, str, Path], None] = {}
    for one in submissions:
        if one.provenance.channel == "our-workflow":
            nights[one.provenance.received, one.backend.id, one.folder] = None
    state: dict[tuple[str, str], tuple[Place, datetime.datetime | None]] = {}
    refused = []
    for received, backend, folder in sorted(nights):
        file = folder / "matrix.json"
        if not file.exists() and not file.is_symlink():
            continue
        try:
            cells = _cells(file)
        except UsageError as error:
            refused.append(Refused(f"{backend}/{folder.name}", str(error)))
            continue
        for cell in cells:
            name = (backend, str(cell["cell"]["id"]))
            if cell["counts"]:
                build = Build.named(cell["torch"], cell["torch_kind"], cell["abi"])
                state[name] = (Place(backend, build, str(cell["cell"]["mode"])), None)
            elif cell["status"] == "missing" and name in state:
                place, since = state[name]
                state[name] = (place, since or received)
    return {place: since for place, since in state.values() if since is not None}, refused


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
