"""Cache plans in the user's cache folder, because planning takes longer than a small run.

The name of a cached file is a digest of everything that determines the plan: the suite, torch, the target
file, the backend, and the libraries that torch's databases use. If a file cannot be read, the plan is built
again. Set ``CONFORMANCE_PLAN_CACHE=0`` to disable the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from conformance import distributed
from conformance.model import digests
from conformance.model.records import Facts, PlanTable
from conformance.plan.plan import Plan
from conformance.subjects import catalogue

#: Environment variable that disables the cache.
VARIABLE = "CONFORMANCE_PLAN_CACHE"
#: Maximum number of files in the cache. The least recently used files are deleted first.
MAX_FILES = 32
_SCHEMA = 1
#: Libraries that torch's databases import. Their versions determine which entries the databases have.
_LIBRARIES = ("numpy", "scipy", "expecttest", "hypothesis")


class Plans(TypedDict):
    """The plans in the output of ``bring_up_and_plan``."""

    plan: PlanTable
    full: PlanTable
    here: list[tuple[str, str]]


def cache_folder() -> Path | None:
    """Return the folder of the cache; None if it is disabled or the user has no home folder."""
    if os.environ.get(VARIABLE) == "0":
        return None
    try:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    except RuntimeError:
        return None
    return Path(base) / "conformance" / "plans" if Path(base).is_absolute() else None


def plan_key(facts: Facts, target_digest: str, mode: str, level: str) -> str:
    """Return the digest of everything that determines a plan, which is the name of its file."""
    import torch

    parts: Mapping[str, object] = {
        "schema": _SCHEMA,
        "suite": digests.suite_digest(),
        "torch": [facts["torch"], _database_file_states()],
        "accelerators": [
            torch.cuda.is_available(),
            torch.xpu.is_available(),
            torch.backends.mps.is_available(),
        ],
        "backend": facts["backend"],
        "python": platform.python_version(),
        "kinds": list(catalogue.kinds()),
        "ranks": os.environ.get(distributed.RANKS),
        "libraries": [_library_version(name) for name in _LIBRARIES],
        "switches": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(("PYTORCH_TEST", "PYTORCH_TESTING", "PYTHONHASHSEED"))
        },
        "target": target_digest,
        "mode": mode,
        "level": level,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _database_file_states() -> list[tuple[str, int, int]]:
    """Return the name, size and modification time of each file of torch's databases, because a torch
    developer may edit these files in the installed torch.
    """
    import torch

    folder = Path(torch.__file__).parent / "testing" / "_internal"
    files = sorted(folder.rglob("*.py"))
    return [
        (file.relative_to(folder).as_posix(), file.stat().st_size, file.stat().st_mtime_ns) for file in files
    ]


def _library_version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {name}"


def load_plans(name: str) -> Plans | None:
    """Return the cached plans of a key; None if they do not exist or cannot be read."""
    cache = cache_folder()
    if cache is None:
        return None
    file = cache / f"{name}.json"
    try:
        data: Plans = json.loads(file.read_text())
        with contextlib.suppress(OSError):
            file.touch()
        for table in (data["plan"], data["full"]):
            Plan.from_json(table)
        return data if all(len(pair) == 2 for pair in data["here"]) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def store_plans(name: str, plans: Plans) -> None:
    """Cache the plans of a key, and delete the oldest files. If the folder is not writable, do nothing."""
    cache = cache_folder()
    if cache is None:
        return
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        # Write atomically, because a different run may read the file at the same time.
        with tempfile.NamedTemporaryFile("w", dir=cache, suffix=".part", delete=False) as scratch:
            json.dump(plans, scratch, separators=(",", ":"))
        os.replace(scratch.name, cache / f"{name}.json")
        files = sorted(cache.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
        for old in files[MAX_FILES:]:
            old.unlink(missing_ok=True)
