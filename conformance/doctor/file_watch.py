"""Watch the files of a backend, so that the doctor can run again after a rebuild."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.errors import UsageError

_SUFFIXES = (".py", ".so", ".pyd", ".dylib", ".dll", ".toml")
#: Seconds between two inspections, and seconds without a change after which a build is finished.
LOOK, QUIET = 0.5, 1.0

#: Modification time and size of each file.
Files = Mapping[Path, tuple[int, int]]


def watched_paths(module: str | None, target_file: Path) -> list[Path]:
    """Return the paths to watch: the package of the backend, and the target file; raise UsageError if it is
    not found.

    The module is located without importing it, so that the watching process never loads the backend.
    """
    if module is None:
        return [target_file]
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise UsageError(f"module {module!r} of the target cannot be found; install it, or set PYTHONPATH")
    packages = [Path(location) for location in spec.submodule_search_locations or ()]
    return [target_file, *(packages or ([Path(spec.origin)] if spec.origin else []))]


def file_states(watched: list[Path]) -> Files:
    """Return the files below some paths with their modification times and sizes."""
    states = {}
    for watched_path in watched:
        for path in watched_path.rglob("*") if watched_path.is_dir() else [watched_path]:
            if path.suffix in _SUFFIXES:
                try:
                    status = path.stat()
                except OSError:  # it is being replaced
                    continue
                states[path] = (status.st_mtime_ns, status.st_size)
    return states


def watch_changes(watched: list[Path]) -> Iterator[list[Path]]:
    """Yield the files that were changed, added or removed, each time after a second without further
    changes.
    """
    return _changes(watched, file_states(watched))


def _changes(watched: list[Path], before: Files) -> Iterator[list[Path]]:
    while True:
        time.sleep(LOOK)
        now = file_states(watched)
        if now == before:
            continue
        quiet = time.monotonic()
        while time.monotonic() - quiet < QUIET:
            time.sleep(LOOK)
            later = file_states(watched)
            if later != now:
                now, quiet = later, time.monotonic()
        changed = sorted(path for path in {**before, **now} if before.get(path) != now.get(path))
        before = now
        if changed:  # all may be as it was again
            yield changed


def changed_lines(old: list[str], new: list[str]) -> list[str]:
    """Return the lines that describe the difference between two outputs of the doctor."""
    removed, added = set(old) - set(new), set(new) - set(old)
    missing = [line for line in new if line in added and line.startswith("MISSING")]
    subjects = {_subject(line) for line in new if line.startswith("MISSING")}
    fixed = [
        _subject(line)
        for line in old
        if line in removed and line.startswith("MISSING") and _subject(line) not in subjects
    ]
    lines = [f"fixed    {subject}" for subject in fixed] + missing
    total = [line for line in new[-1:] if line in added]
    return [*lines, *total] or ["nothing has changed"]


def _subject(line: str) -> str:
    return line[8:].split("  ")[0].strip()
