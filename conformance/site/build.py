"""Write the files of the site: pages, badges, data and assets."""

from __future__ import annotations

import datetime
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.query import language
from conformance.site import badges, cell_state, explore, feeds, interop, pages
from conformance.site.build_columns import release_numbers
from conformance.site.matrix_cells import Cell
from conformance.site.matrix_cells import cells as cells_of
from conformance.site.registry import Backend
from conformance.site.store.store import Store, sorted_keys
from conformance.site.submissions import RefusedRun

#: The file that marks a folder as a site. Only a folder with this file is ever replaced.
MARK = ".conformance-site"
_QUERY = Path(language.__file__).parent / "query.js"
#: The folders that the site itself writes.
OWN_FOLDERS = ("backends", "badges", "data", "feeds")


def build_site(
    store: Store,
    output: Path,
    registry: Mapping[str, Backend],
    today: datetime.date,
    other_pages: Path | None = None,
) -> list[Cell]:
    """Build the site from a store and the registry, and return its cells.

    ``other_pages`` is a folder with one subfolder for each group of other pages, such as the documentation.
    The folder may be missing.
    """
    included = _folders_of(other_pages) if other_pages is not None and other_pages.exists() else ()
    lines = [store.lines[key] for key in sorted_keys(store) if key[0] in registry]
    cells = cells_of(lines, today, store.missing())
    scratch = output.with_name(f"{output.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    _write_site(scratch, registry, cells, store.refused, today, [source.name for source in included])
    for source in included:
        shutil.copytree(source, scratch / source.name)
    shutil.rmtree(output, ignore_errors=True)
    scratch.rename(output)
    return cells


def check_output(output: Path, folder: Path) -> None:
    """Raise UsageError if the output folder is not a site, or overlaps with ``folder``, the results folder
    or the store folder.
    """
    for outer, inner in ((output, folder), (folder, output)):
        if outer.resolve() == inner.resolve() or outer.resolve() in inner.resolve().parents:
            raise UsageError(f"the output folder {output} overlaps with {folder}; choose another folder")
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise UsageError(f"{output} is not a folder; choose another path")
    if output.exists() and any(output.iterdir()) and not (output / MARK).is_file():
        raise UsageError(f"{output} is neither empty nor a site; choose another folder")


def _folders_of(other_pages: Path) -> list[Path]:
    """Return the folders of other pages, sorted by name.

    Raise UsageError if a folder has no ``index.html`` or its name cannot be a folder of the site.
    """
    if not other_pages.is_dir():
        raise UsageError(
            f"--pages {other_pages} is not a folder; give the folder that contains the other pages"
        )
    folders = sorted(other_pages.iterdir())
    for source in folders:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", source.name) or source.name in OWN_FOLDERS:
            raise UsageError(
                f"--pages: {source.name!r} in {other_pages} cannot be a folder of the site; "
                f"use letters a-z, digits and hyphens, and not {' or '.join(OWN_FOLDERS)}"
            )
        if not (source / "index.html").is_file():
            raise UsageError(f"--pages: {source / 'index.html'} does not exist; build these pages first")
    return folders


def _write_site(
    output: Path,
    registry: Mapping[str, Backend],
    cells: Sequence[Cell],
    refused: Sequence[RefusedRun],
    today: datetime.date,
    included: Sequence[str],
) -> None:
    try:
        output.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"{output} cannot be created ({error.strerror}); choose another folder") from None
    for name in OWN_FOLDERS:
        if name != "data":
            (output / name).mkdir()
    for asset in (*sorted(pages.ASSETS.iterdir()), _QUERY):
        shutil.copyfile(asset, output / asset.name)
    explore.write_data(output / "data", registry, cells)
    (output / "explore.html").write_text(pages.explore_page(today, included))
    variants = [backend.id for backend in registry.values() if backend.stand_in]
    (output / "glossary.html").write_text(pages.glossary_page(today, included))
    (output / "interop.html").write_text(
        pages.interop_page(interop.interop_scores(cells, variants), cells, today, included)
    )
    (output / "index.html").write_text(pages.index_page(registry, cells, refused, today, included))
    for backend in registry.values():
        page = pages.backend_page(backend, cells, today, included)
        (output / "backends" / f"{backend.id}.html").write_text(page)
        (output / "feeds" / f"{backend.id}.xml").write_text(feeds.feed_xml(backend, cells, today))
        write_badges(output / "badges", backend, cells)
    text = json.dumps(site_data(registry, cells, refused, today), indent=1, sort_keys=True)
    (output / "data.json").write_text(text + "\n")
    (output / MARK).touch()


def write_badges(folder: Path, backend: Backend, cells: Sequence[Cell]) -> None:
    """Write one badge for each mode of a backend, and one for the backend.

    The badge of a mode shows the worst cell of the newest torch release. The badge of the backend shows the
    worst mode.
    """
    of_backend = [cell for cell in cells if cell.backend == backend.id]
    worst_by_mode: dict[str, Cell] = {}
    for mode in dict.fromkeys(cell.mode for cell in of_backend):
        of_mode = [cell for cell in of_backend if cell.mode == mode]
        # A mode may run on one kind of build only: ignore builds on which the backend refuses to run.
        ran = [cell for cell in of_mode if cell_state.cell_state(cell) != "refused"] or of_mode
        newest = [
            cell
            for cell in ran
            if release_numbers(cell.build.version) == release_numbers(ran[-1].build.version)
        ]
        worst_by_mode[mode] = max(
            newest, key=lambda cell: cell_state.SEVERITY.index(cell_state.cell_state(cell))
        )
    for mode, cell in worst_by_mode.items():
        state = cell_state.cell_state(cell)
        text = f"{state}: {cell_state.short_cell_text(cell)}, torch {cell.build.version}"
        text = badges.badge(f"{backend.id} {mode}", state, text)
        (folder / f"{backend.id}-{mode}.svg").write_text(text)
    states = [cell_state.cell_state(cell) for cell in worst_by_mode.values()]
    worst = max(
        [state for state in states if state != "refused"] or states,
        key=cell_state.SEVERITY.index,
        default="unknown",
    )
    about = f"{worst}, {len(worst_by_mode)} modes" if worst_by_mode else "no result yet"
    (folder / f"{backend.id}.svg").write_text(badges.badge(backend.id, worst, about))


def site_data(
    registry: Mapping[str, Backend],
    cells: Sequence[Cell],
    refused: Sequence[RefusedRun],
    today: datetime.date,
) -> dict[str, Any]:
    """Return the content of all pages as JSON data."""
    return {
        "schema": 1,
        "made": today.isoformat(),
        "backends": [
            {
                "id": backend.id,
                "name": backend.name,
                "link": backend.link,
                "cells": _cells_data(backend, cells),
            }
            for backend in registry.values()
        ],
        "refused": [{"place": submission.place, "why": submission.why} for submission in refused],
    }


def _cells_data(backend: Backend, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    entries = []
    for cell in cells:
        if cell.backend != backend.id:
            continue
        entries.append(
            {
                "torch": cell.build.version,
                "kind": cell.build.kind,
                "abi": cell.build.abi,
                "mode": cell.mode,
                "state": cell_state.cell_state(cell),
                "age": cell.age,
                "missing_since": cell.missing.isoformat() if cell.missing else None,
                "runs": [
                    {
                        "run": run.run,
                        "started": run.started.isoformat(),
                        "status": run.status,
                        "level_held": run.level,
                        "level": run.leg["level"],
                        "passed": run.passed,
                        "planned": run.planned,
                        "claimed": run.claimed,
                        "regressed": list(run.regressed),
                        "regressed_count": run.regressed_count,
                        "compared_with": run.compared_with,
                        "provenance": run.provenance.channel,
                        "link": run.provenance.link,
                    }
                    for run in cell.runs
                ],
            }
        )
    return entries
