"""Watching the files of a backend, so that the doctor can look again when one of them was rebuilt."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.errors import UsageError

_SUFFIXES = (".py", ".so", ".pyd", ".dylib", ".dll", ".toml")
#: Seconds between two looks, and without a change after which a build counts as finished.
LOOK, QUIET = 0.5, 1.0

#: Time of change and size of each file.
Files = Mapping[Path, tuple[int, int]]


def places(module: str | None, target_file: Path) -> list[Path]:
    """Return what is watched: the package of the backend, and the target file. UsageError if it is not found.

    The module is found without being imported, so that the process that watches never loads the backend.
    """
    if module is None:
        return [target_file]
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise UsageError(f"module {module!r} of the target cannot be found; install it, or set PYTHONPATH")
    packages = [Path(place) for place in spec.submodule_search_locations or ()]
    return [target_file, *(packages or ([Path(spec.origin)] if spec.origin else []))]


def files(watched: list[Path]) -> Files:
    """Return the files of some places with their times and sizes."""
    found = {}
    for place in watched:
        for path in place.rglob("*") if place.is_dir() else [place]:
            if path.suffix in _SUFFIXES:
                try:
                    status = path.stat()
                except OSError:  # it is being replaced
                    continue
                found[path] = (status.st_mtime_ns, status.st_size)
    return found


def changes(watched: list[Path]) -> Iterator[list[Path]]:
    """Iterate over the files that are changed, added or removed from now on, each time after they have been
    left alone for a second.
    """
    return _changes(watched, files(watched))


def _changes(watched: list[Path], before: Files) -> Iterator[list[Path]]:
    while True:
        time.sleep(LOOK)
        now = files(watched)
        if now == before:
            continue
        quiet = time.monotonic()
        while time.monotonic() - quiet < QUIET:
            time.sleep(LOOK)
            again = files(watched)
            if again != now:
                now, quiet = again, time.monotonic()
        changed = sorted(path for path in {**before, **now} if before.get(path) != now.get(path))
        before = now
        if changed:  # all may be as it was again
            yield changed


def difference(old: list[str], new: list[str]) -> list[str]:
    """Lines that say what changed from one answer of the doctor to the next."""
    gone, added = set(old) - set(new), set(new) - set(old)
    missing = [line for line in new if line in added and line.startswith("MISSING")]
    subjects = {_subject(line) for line in new if line.startswith("MISSING")}
    fixed = [
        _subject(line)
        for line in old
        if line in gone and line.startswith("MISSING") and _subject(line) not in subjects
    ]
    lines = [f"fixed    {subject}" for subject in fixed] + missing
    total = [line for line in new[-1:] if line in added]
    return [*lines, *total] or ["nothing has changed"]


def _subject(line: str) -> str:
    return line[8:].split("  ")[0].strip()
