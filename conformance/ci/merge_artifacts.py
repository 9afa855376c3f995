"""Merge the artifacts of all legs of a matrix into one results file and one table with all cells."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance.errors import UsageError
from conformance.matrix import collect, table
from conformance.matrix.collect import CellOutcome, CellStatus
from conformance.matrix.plan import Cell
from conformance.report import output_files
from conformance.results import merge

#: The files that are copied from the artifact of a leg.
TAKEN = ("results.json", "journal.jsonl", "junit.xml", "report.html")
#: The file that contains the name of an artifact. It is needed because the download of a single artifact may
#: omit the folder with this name.
NAMED = "artifact.txt"
#: The maximum size of a copied file in bytes.
LARGEST = 96 << 20


def artifact_name(name: str, cell: str, attempt: str) -> str:
    """Return the name of the artifact of a leg.

    Artifacts are immutable, so each attempt has its own artifact.
    """
    return f"{name}-leg-{cell}-{attempt}"


def copy_artifacts(cells: Sequence[Cell], downloaded: Path, output: Path, name: str) -> list[str]:
    """Copy the newest attempt of each cell's artifact to ``output/legs/ID``; return notes on omitted files.

    Artifacts are untrusted. Therefore only the files in ``TAKEN`` are copied, unless they are links or too
    large.
    """
    notes = []
    folders = _artifact_folders(downloaded)
    for cell in cells:
        pattern = re.compile(re.escape(f"{name}-leg-{cell.id}-") + r"(\d{1,6})")
        attempts = sorted(
            (int(match[1]), folder)
            for artifact_name, folder in folders
            if (match := pattern.fullmatch(artifact_name))
        )
        if not attempts:
            continue
        folder = attempts[-1][1]
        target = output / "legs" / cell.id
        target.mkdir(parents=True)
        for artifact_name in TAKEN:
            file = folder / artifact_name
            if file.is_symlink() or not file.is_file():
                continue
            if file.stat().st_size > LARGEST:
                notes.append(f"{cell.id}: {artifact_name} is larger than {LARGEST >> 20} MiB and was omitted")
                continue
            shutil.copyfile(file, target / artifact_name)
    if not any((output / "legs").iterdir()):
        present = ", ".join(artifact_name for artifact_name, _ in folders[:5]) or "nothing"
        notes.append(f"no artifact is called {name}-leg-CELL-ATTEMPT; the download contains {present}")
    return notes


def _artifact_folders(downloaded: Path) -> list[tuple[str, Path]]:
    """Return the names and the folders of the downloaded artifacts.

    A single artifact may lie in ``downloaded`` itself. The file ``NAMED`` then contains its name.
    """
    alone = downloaded / NAMED
    if alone.is_file() and not alone.is_symlink() and alone.stat().st_size < 1000:
        return [(alone.read_text(errors="replace").strip(), downloaded)]
    if not downloaded.is_dir():
        return []
    return [
        (path.name, path) for path in sorted(downloaded.iterdir()) if path.is_dir() and not path.is_symlink()
    ]


def merge_artifacts(
    cells: Sequence[Cell], downloaded: Path, output: Path, name: str
) -> tuple[list[CellOutcome], bool]:
    """Merge the artifacts of all cells into ``output``.

    The function writes ``legs/``, ``matrix.json``, ``matrix.md`` and the merged results of all legs,
    including legs that were refused. It returns the outcomes of the cells, and whether merged results were
    written. Raise UsageError if the output folder is not empty.
    """
    if output.exists() and any(output.iterdir()):
        raise UsageError(f"{output} is not empty; choose a folder that does not exist")
    (output / "legs").mkdir(parents=True)
    notes = copy_artifacts(cells, downloaded, output, name)
    outcomes = collect.collect_outcomes(cells, output / "legs")
    (output / "matrix.json").write_text(collect.outcomes_json(outcomes) + "\n")
    legs = []
    cell_of_leg: dict[tuple[str, str], str] = {}
    for outcome in outcomes:
        if outcome.status is CellStatus.MISSING or outcome.torch is None:  # refused legs are merged too
            continue
        for leg in output_files.read_legs(output / "legs" / outcome.cell.id):
            if (leg["mode"], leg["level"]) != (outcome.cell.mode, outcome.cell.level):
                notes.append(
                    f"{outcome.cell.id}: a run of mode {leg['mode']} at level {leg['level']} was omitted"
                )
                continue
            first = cell_of_leg.setdefault((str(leg["torch"]), str(leg["mode"])), outcome.cell.id)
            if first != outcome.cell.id:
                notes.append(
                    f"{outcome.cell.id} ran on the torch of {first}; only the results of {first} are used"
                )
                continue
            legs.append((outcome.cell.id, leg))
    try:
        merged = merge.merge_legs(legs)
    except UsageError as error:
        notes.append(f"the results cannot be merged: {error}")
        merged = []
    if merged:
        output_files.write_reports(output, merged)
    lines = [table.markdown_table(outcomes), *(f"* {table.escape_markdown(note)}" for note in notes)]
    (output / "matrix.md").write_text("\n".join(lines) + "\n")
    return outcomes, bool(merged)
