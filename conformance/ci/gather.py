"""The artifacts of all legs of a matrix, put together: a results file, a table, and what is missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance import merge
from conformance.errors import UsageError
from conformance.matrix import collect, table
from conformance.matrix.collect import Outcome
from conformance.matrix.plan import Cell
from conformance.report import files

#: What is taken of a leg's artifact.
TAKEN = ("results.json", "journal.jsonl", "junit.xml", "report.html")
#: A leg's file that is larger is not taken.
LARGEST = 96 << 20


def artifact(name: str, cell: str, attempt: str) -> str:
    """Name of the artifact of a leg: artifacts cannot be written twice, so an attempt has its own."""
    return f"{name}-leg-{cell}-{attempt}"


def place(cells: Sequence[Cell], downloaded: Path, output: Path, name: str) -> list[str]:
    """Copy the newest attempt of each cell's artifact to ``output/legs/ID``; sentences about what was left.

    Artifacts are data that others wrote: of each the known files are taken, no links, none too large.
    """
    notes = []
    for cell in cells:
        pattern = re.compile(re.escape(f"{name}-leg-{cell.id}-") + r"(\d{1,6})")
        attempts = sorted(
            (int(found[1]), folder)
            for folder in downloaded.iterdir()
            if (found := pattern.fullmatch(folder.name)) and folder.is_dir() and not folder.is_symlink()
        )
        if not attempts:
            continue
        folder = attempts[-1][1]
        target = output / "legs" / cell.id
        target.mkdir(parents=True)
        for word in TAKEN:
            file = folder / word
            if file.is_symlink() or not file.is_file():
                continue
            if file.stat().st_size > LARGEST:
                notes.append(f"{cell.id}: {word} is larger than {LARGEST >> 20} MiB and was left out")
                continue
            shutil.copyfile(file, target / word)
    return notes


def gather(cells: Sequence[Cell], downloaded: Path, output: Path, name: str) -> tuple[list[Outcome], bool]:
    """All of it into ``output``: ``legs/``, ``matrix.json``, ``matrix.md``, and the merged results of the
    legs that have left any, refusals among them; whether there are such.

    UsageError where the output folder is not empty or legs cannot be merged.
    """
    if output.exists() and any(output.iterdir()):
        raise UsageError(f"{output} is not empty; name a folder that does not exist yet")
    (output / "legs").mkdir(parents=True)
    notes = place(cells, downloaded, output, name) if downloaded.is_dir() else ["no leg has left an artifact"]
    outcomes = collect.collect(cells, output / "legs")
    (output / "matrix.json").write_text(collect.document(outcomes) + "\n")
    lines = [table.markdown(outcomes), *(f"* {table.escaped(note)}" for note in notes)]
    (output / "matrix.md").write_text("\n".join(lines) + "\n")
    found = []
    for one in outcomes:
        if one.status != "missing" and one.torch is not None:  # a refusal is told too
            for leg in files.read(output / "legs" / one.cell.id):
                found.append((one.cell.id, {**leg}))
    if found:
        files.write(output, merge.merge(found))
    return outcomes, bool(found)
