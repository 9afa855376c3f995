"""Configure, empty and trim the disk cache of compiled recipes.

PT_HPU_RECIPE_CACHE_CONFIG is ``path,delete,size_mb[,nfs]``. If this variable is not set, the older variables
are used: PT_RECIPE_CACHE_PATH, PT_CACHE_FOLDER_DELETE and PT_CACHE_FOLDER_SIZE_MB.

The cache contains only compiled code, because an interpreted recipe is built faster than read from a file. If
the path is empty (the default), the cache is a folder in Inductor's cache. If a path is set, Inductor's cache
of the code that `hpu_backend` compiles is the folder ``inductor`` at this path.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from habana_frameworks.torch.internal.settings.environment import read_variable

VARIABLE = "PT_HPU_RECIPE_CACHE_CONFIG"
OLD_PATH, OLD_DELETE = "PT_RECIPE_CACHE_PATH", "PT_CACHE_FOLDER_DELETE"
OLD_SIZE = "PT_CACHE_FOLDER_SIZE_MB"
#: Name of the folder of Inductor's cache within the recipe cache.
INDUCTOR = "inductor"
#: Minimum age of a file of Inductor for its removal. A running compilation may need a younger file.
_SECONDS_OF_A_COMPILATION = 600
_TRUTH = {"true": True, "1": True, "false": False, "0": False, "": False}


@dataclass(frozen=True)
class CacheConfig:
    """Settings of the disk cache.

    Attributes:
        path: the folder, or None for the default folder.
        delete: empty the folder when the process first uses it.
        megabytes: maximum size in MiB; the least recently used artifacts are removed first. 0 means no limit.
        nfs: accepted and ignored, because renames are atomic on local and NFS file systems.
    """

    path: Path | None = None
    delete: bool = False
    megabytes: int = 1024
    nfs: bool = False


def parse_cache_config(text: str) -> CacheConfig:
    """Parse the text of PT_HPU_RECIPE_CACHE_CONFIG.

    Raises:
        ValueError: the text does not have 3 or 4 fields, or a field has the wrong type.
    """
    if not text.strip():
        return CacheConfig()
    fields = [field.strip() for field in text.split(",")]
    lowered = [field.lower() for field in fields]
    sound = (
        len(fields) in (3, 4) and lowered[1] in _TRUTH and lowered[-1 if len(fields) == 4 else 1] in _TRUTH
    )
    if not sound or not (fields[2] or "1024").isdigit():
        raise ValueError(
            f"{VARIABLE}={text!r} is not path,delete,size_mb[,nfs]. Use, for example, "
            "/tmp/recipes,false,1024."
        )
    return CacheConfig(
        Path(fields[0]) if fields[0] else None,
        _TRUTH[lowered[1]],
        int(fields[2] or "1024"),
        len(fields) == 4 and _TRUTH[lowered[3]],
    )


def cache_config_from_environment() -> CacheConfig:
    """Return the configuration of this process.

    Raises:
        ValueError: a variable has an invalid value, see `parse_cache_config`.
    """
    text = os.environ.get(VARIABLE, "")
    old = [name for name in (OLD_PATH, OLD_DELETE, OLD_SIZE) if os.environ.get(name)]
    if text.strip() or not old:
        return parse_cache_config(text)
    path = os.environ.get(OLD_PATH, "")
    delete, megabytes = (
        bool(read_variable(OLD_DELETE, "bool", False)),
        int(read_variable(OLD_SIZE, "u32", 1024)),
    )
    warnings.warn(
        f"{', '.join(old)} is the old syntax. Use {VARIABLE}={path},{str(delete).lower()},{megabytes}",
        FutureWarning,
        stacklevel=1,  # attributes the warning to this line, so that Python shows it once for all callers
    )
    return CacheConfig(Path(path) if path else None, delete, megabytes)


def empty_cache(folder: Path) -> None:
    """Remove the artifacts and the files of Inductor that were written before this process started.

    Younger files stay, because another rank of the job may have written them. Processes keep the code that
    they have already loaded.
    """
    for entry in [*_finished_artifacts(folder), *_inductor_files(folder)]:
        with contextlib.suppress(OSError):
            if entry.stat().st_mtime >= _process_start():
                continue
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()


def trim_cache(folder: Path, megabytes: int) -> None:
    """Remove the least recently used artifacts and files of Inductor until the cache has at most `megabytes`
    MiB (0: no limit). Files of Inductor that were used in the last ten minutes stay, even above the limit.
    """
    if megabytes <= 0:
        return
    sizes = []
    for entry in _finished_artifacts(folder):
        with contextlib.suppress(OSError):  # another process may remove the artifact at the same time
            bytes_ = sum(file.stat().st_size for file in entry.iterdir())
            sizes.append((entry.stat().st_mtime, bytes_, entry))
    for file in _inductor_files(folder):
        with contextlib.suppress(OSError):
            status = file.stat()
            sizes.append((max(status.st_mtime, status.st_atime), status.st_size, file))
    total = sum(size for _, size, _ in sizes)
    for used, size, entry in sorted(sizes, key=lambda item: item[0]):
        if total <= megabytes << 20:
            return
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif used < time.time() - _SECONDS_OF_A_COMPILATION:
            try:
                entry.unlink()
            except OSError:  # removed by another process, or a file that this process may not remove
                continue
        else:
            continue
        total -= size


@contextlib.contextmanager
def use_configured_inductor_cache() -> Iterator[None]:
    """Return a context in which Inductor uses the folder `INDUCTOR` of the recipe cache.

    If no path is configured, or if the process cannot write to it, Inductor uses its own folder. A path that
    cannot be written causes one warning. Inductor locks its files, so several processes can compile at once.
    """
    config = cache_config_from_environment()
    if config.path is None or not _is_writable_folder(config.path / INDUCTOR):
        yield
        return
    if config.delete:
        empty_cache_once(config.path)
    _cache_dir.set(str(config.path / INDUCTOR))
    try:
        yield
    finally:
        _cache_dir.restore()
        trim_cache(config.path, config.megabytes)


@functools.cache
def _is_writable_folder(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as error:
        warnings.warn(
            f"{VARIABLE}: compiled code cannot be written to {folder} ({error.strerror}), so Inductor uses "
            "its own folder. Choose a path that this user can write to.",
            stacklevel=1,
        )
        return False


def empty_cache_once(folder: Path) -> None:
    """Call `empty_cache` for a folder, once per process and folder."""
    with _emptied_lock:
        if folder not in _emptied:
            _emptied.add(folder)
            empty_cache(folder)


class _SharedEnvironmentVariable:
    """An environment variable that several threads set at once. The last `restore` restores the old value."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._users = 0
        self._before: str | None = None

    def set(self, value: str) -> None:
        """Set the variable until each caller has called `restore`."""
        with self._lock:
            if self._users == 0:
                self._before = os.environ.get(self._name)
            self._users += 1
            os.environ[self._name] = value

    def restore(self) -> None:
        """End one use of the variable. The end of the last use restores the value before the first `set`."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._before is None:
                os.environ.pop(self._name, None)
            elif self._users == 0:
                os.environ[self._name] = str(self._before)


_cache_dir = _SharedEnvironmentVariable("TORCHINDUCTOR_CACHE_DIR")
_emptied: set[Path] = set()
_emptied_lock = threading.Lock()


@functools.cache
def _process_start() -> float:
    """Return the time at which this process started, in seconds since the epoch."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _inductor_files(folder: Path) -> list[Path]:
    try:
        # Headers stay, because a running process remembers their paths and does not write them again.
        files = (folder / INDUCTOR).rglob("*")
        return [path for path in files if path.suffix != ".h" and path.is_file()]
    except OSError:
        return []


def _finished_artifacts(folder: Path) -> list[Path]:
    # Names of unfinished artifacts begin with a dot. They belong to the processes that write them.
    try:
        return [
            entry
            for entry in folder.iterdir()
            if not entry.name.startswith(".") and (entry / "convention.json").exists()
        ]
    except OSError:
        return []
