"""Scripts beside the results of a run, each of which shows one failure with torch and the backend alone."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

#: The folder of the scripts in the output folder of a run.
FOLDER = "snippets"
#: Bytes from which on a script is no reading for people.
MOST = 1 << 16


def path(folder: Path, mode: str, result_id: str) -> Path:
    """Return the file for the script of a result in a mode; no two results have the same one."""
    return folder / FOLDER / f"{mode}-{quote(result_id, safe='@')}.py"


def read(folder: Path, mode: str, result_id: str) -> str | None:
    """Return the script of a result; None if there is none that can be read."""
    file = path(folder, mode, result_id)
    try:
        return file.read_text() if file.stat().st_size <= MOST else None
    except (OSError, ValueError):
        return None
