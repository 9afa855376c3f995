"""The artifacts of all legs of a matrix as one results file and one table, with what is missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance.errors import UsageError
from conformance.matrix import collect, table
from conformance.matrix.collect import CellOutcome
from conformance.matrix.plan import Cell
from conformance.report import output_files
from conformance.results import merge

#: The files that are taken from a leg's artifact.
TAKEN = ("results.json", "journal.jsonl", "junit.xml", "report.html")
#: File of an artifact that holds its name: the download of a single artifact may leave out its folder.
NAMED = "artifact.txt"
#: A larger file of a leg is not taken.
LARGEST = 96 << 20


def artifact_name(name: str, cell: str, attempt: str) -> str:
    """Name the artifact of a leg: artifacts cannot be written twice, so each attempt has its own."""
    return f"{name}-leg-{cell}-{attempt}"


def copy_artifacts(cells: Sequence[Cell], downloaded: Path, output: Path, name: str) -> list[str]:
    """Copy the newest attempt of each cell's artifact to ``output/legs/ID``; return notes on what was left
    out.

    Artifacts are untrusted data: only the known files are taken, and neither links nor large files.
    """
    notes = []
    folders = _folders(downloaded)
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
                notes.append(
                    f"{cell.id}: {artifact_name} is larger than {LARGEST >> 20} MiB and was left out"
                )
                continue
            shutil.copyfile(file, target / artifact_name)
    if not any((output / "legs").iterdir()):
        present = ", ".join(artifact_name for artifact_name, _ in folders[:5]) or "nothing"
        notes.append(f"no artifact is called {name}-leg-CELL-ATTEMPT; what was downloaded is: {present}")
    return notes


def _folders(downloaded: Path) -> list[tuple[str, Path]]:
    """List the artifacts with their names. A single one is in the folder itself, and a file names it."""
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
    """Write ``legs/``, ``matrix.json``, ``matrix.md`` and the merged results of all legs that left any,
    refusals included, into ``output``; return the outcomes, and True if there are any results.

    UsageError if the output folder is not empty or legs cannot be merged.
    """
    if output.exists() and any(output.iterdir()):
        raise UsageError(f"{output} is not empty; name a folder that does not exist yet")
    (output / "legs").mkdir(parents=True)
    notes = copy_artifacts(cells, downloaded, output, name)
    outcomes = collect.collect_outcomes(cells, output / "legs")
    (output / "matrix.json").write_text(collect.outcomes_json(outcomes) + "\n")
    legs = []
    cell_of_leg: dict[tuple[str, str], str] = {}
    for outcome in outcomes:
        if outcome.status == "missing" or outcome.torch is None:  # a refusal is kept
            continue
        for leg in output_files.read_legs(output / "legs" / outcome.cell.id):
            if (leg["mode"], leg["level"]) != (outcome.cell.mode, outcome.cell.level):
                notes.append(
                    f"{outcome.cell.id}: a run of mode {leg['mode']} at level {leg['level']} was left out"
                )
                continue
            first = cell_of_leg.setdefault((str(leg["torch"]), str(leg["mode"])), outcome.cell.id)
            if first != outcome.cell.id:
                notes.append(f"{outcome.cell.id} ran on the torch of {first}, whose results are shown")
                continue
            legs.append((outcome.cell.id, leg))
    try:
        merged = merge.merge(legs)
    except UsageError as error:
        notes.append(f"the results cannot be put together: {error}")
        merged = []
    if merged:
        output_files.write_reports(output, merged)
    lines = [table.markdown_table(outcomes), *(f"* {table.escape_markdown(note)}" for note in notes)]
    (output / "matrix.md").write_text("\n".join(lines) + "\n")
    return outcomes, bool(merged)
