"""The artifacts of all legs of a matrix, put together: a results file, a table, and what is missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance.errors import UsageError
from conformance.matrix import collect, table
from conformance.matrix.collect import Outcome
from conformance.matrix.plan import Cell
from conformance.report import files
from conformance.results import merge

#: What is taken of a leg's artifact.
TAKEN = ("results.json", "journal.jsonl", "junit.xml", "report.html")
#: File of an artifact that has its name: what downloads a single one may leave out its folder.
NAMED = "artifact.txt"
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
    folders = _folders(downloaded)
    for cell in cells:
        pattern = re.compile(re.escape(f"{name}-leg-{cell.id}-") + r"(\d{1,6})")
        attempts = sorted(
            (int(found[1]), folder) for word, folder in folders if (found := pattern.fullmatch(word))
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
    if not any((output / "legs").iterdir()):
        there = ", ".join(word for word, _ in folders[:5]) or "nothing"
        notes.append(f"no artifact is called {name}-leg-CELL-ATTEMPT; what was downloaded is: {there}")
    return notes


def _folders(downloaded: Path) -> list[tuple[str, Path]]:
    """Artifacts by name. One that is alone lies in the folder itself, and says there how it is called."""
    alone = downloaded / NAMED
    if alone.is_file() and not alone.is_symlink() and alone.stat().st_size < 1000:
        return [(alone.read_text(errors="replace").strip(), downloaded)]
    if not downloaded.is_dir():
        return []
    return [
        (path.name, path) for path in sorted(downloaded.iterdir()) if path.is_dir() and not path.is_symlink()
    ]


def gather(cells: Sequence[Cell], downloaded: Path, output: Path, name: str) -> tuple[list[Outcome], bool]:
    """All of it into ``output``: ``legs/``, ``matrix.json``, ``matrix.md``, and the merged results of the
    legs that have left any, refusals among them; whether there are such.

    UsageError where the output folder is not empty or legs cannot be merged.
    """
    if output.exists() and any(output.iterdir()):
        raise UsageError(f"{output} is not empty; name a folder that does not exist yet")
    (output / "legs").mkdir(parents=True)
    notes = place(cells, downloaded, output, name)
    outcomes = collect.collect(cells, output / "legs")
    (output / "matrix.json").write_text(collect.document(outcomes) + "\n")
    found = []
    seen: dict[tuple[str, str], str] = {}
    for one in outcomes:
        if one.status == "missing" or one.torch is None:  # a refusal is told too
            continue
        for leg in files.read(output / "legs" / one.cell.id):
            if (leg["mode"], leg["level"]) != (one.cell.mode, one.cell.level):
                notes.append(
                    f"{one.cell.id}: a run of mode {leg['mode']} at level {leg['level']} was left out"
                )
                continue
            other = seen.setdefault((str(leg["torch"]), str(leg["mode"])), one.cell.id)
            if other != one.cell.id:
                notes.append(f"{one.cell.id} ran on the torch of {other}, whose results are shown")
                continue
            found.append((one.cell.id, {**leg}))
    try:
        merged = merge.merge(found)
    except UsageError as error:
        notes.append(f"the results cannot be put together: {error}")
        merged = []
    if merged:
        files.write(output, merged)
    lines = [table.markdown(outcomes), *(f"* {table.escaped(note)}" for note in notes)]
    (output / "matrix.md").write_text("\n".join(lines) + "\n")
    return outcomes, bool(merged)
