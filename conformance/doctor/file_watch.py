"""Watch the files of a backend, so that the doctor can run again after a rebuild."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.errors import UsageError

_SUFFIXES = (".py", ".so", ".pyd", ".dylib", ".dll", ".toml")
#: Seconds between two inspections of the watched files, and seconds without a change after which the
#: backend's build is assumed to be finished.
LOOK, QUIET = 0.5, 1.0

#: Modification time and size of each file.
Files = Mapping[Path, tuple[int, int]]


def watched_paths(module: str | None, target_file: Path) -> list[Path]:
    """Return the paths to watch: the backend's package and the target file.

    The package is located without importing it, because the watching process must never load the backend.
    Raise UsageError if the package does not exist.
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
    """Return the modification time and size of every file in the watched paths."""
    states = {}
    for watched_path in watched:
        for path in watched_path.rglob("*") if watched_path.is_dir() else [watched_path]:
            if path.suffix in _SUFFIXES:
                try:
                    status = path.stat()
                except OSError:  # the build is replacing this file
                    continue
                states[path] = (status.st_mtime_ns, status.st_size)
    return states


def watch_changes(watched: list[Path]) -> Iterator[list[Path]]:
    """Wait for changes. Yield the files that were changed, added or removed, as soon as nothing has changed
    for a second.
    """
    return _changes_since(watched, file_states(watched))


def _changes_since(watched: list[Path], before: Files) -> Iterator[list[Path]]:
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
        if changed:  # empty if all files have their old state again
            yield changed


def changed_feature_lines(old: list[str], new: list[str]) -> list[str]:
    """Return lines for the user: fixed features, newly missing features, and the total if it changed."""
    removed, added = set(old) - set(new), set(new) - set(old)
    missing = [line for line in new if line in added and line.startswith("MISSING")]
    subjects = {_feature_in_line(line) for line in new if line.startswith("MISSING")}
    fixed = [
        _feature_in_line(line)
        for line in old
        if line in removed and line.startswith("MISSING") and _feature_in_line(line) not in subjects
    ]
    lines = [f"fixed    {subject}" for subject in fixed] + missing
    total = [line for line in new[-1:] if line in added]
    return [*lines, *total] or ["nothing has changed"]


def _feature_in_line(line: str) -> str:
    return line[8:].split("  ")[0].strip()
