"""Plans of earlier runs, kept in the user's cache folder: planning takes longer than a small selection runs.

A plan is a function of the suite, torch, the target file and the backend, so its file is named by a digest
of these and of the libraries that torch's databases look at. Anything that cannot be read is planned anew.
Set ``CONFORMANCE_PLAN_CACHE=0`` to plan anew each time.
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

#: Switch of the cache, an environment variable.
VARIABLE = "CONFORMANCE_PLAN_CACHE"
#: Files that are kept; the ones that were not used for longest go first.
KEPT = 32
_SCHEMA = 1
#: Libraries that decide which entries torch's databases have.
_LIBRARIES = ("numpy", "scipy", "expecttest", "hypothesis")


class Plans(TypedDict):
    """The part of the answer of ``prepare`` that a plan decides."""

    plan: PlanTable
    full: PlanTable
    here: list[tuple[str, str]]


def folder() -> Path | None:
    """Return the folder of the cache; None if it is switched off, or the user has no home."""
    if os.environ.get(VARIABLE) == "0":
        return None
    try:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    except RuntimeError:
        return None
    return Path(base) / "conformance" / "plans" if Path(base).is_absolute() else None


def key(facts: Facts, target_digest: str, mode: str, level: str) -> str:
    """Digest of everything that decides a plan."""
    import torch

    parts: Mapping[str, object] = {
        "schema": _SCHEMA,
        "suite": digests.suite_digest(),
        "torch": [facts["torch"], _databases()],
        "accelerators": [
            torch.cuda.is_available(),
            torch.xpu.is_available(),
            torch.backends.mps.is_available(),
        ],
        "backend": facts["backend"],
        "python": platform.python_version(),
        "kinds": list(catalogue.kinds()),
        "ranks": os.environ.get(distributed.RANKS),
        "libraries": [_version(name) for name in _LIBRARIES],
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


def _databases() -> list[tuple[str, int, int]]:
    """Sizes and times of torch's databases, which a developer of torch may edit in place."""
    import torch

    folder = Path(torch.__file__).parent / "testing" / "_internal"
    files = sorted(folder.rglob("*.py"))
    return [
        (file.relative_to(folder).as_posix(), file.stat().st_size, file.stat().st_mtime_ns) for file in files
    ]


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {name}"


def load(name: str) -> Plans | None:
    """The plans of a key; None if there are none that can be read."""
    place = folder()
    if place is None:
        return None
    file = place / f"{name}.json"
    try:
        data: Plans = json.loads(file.read_text())
        with contextlib.suppress(OSError):
            file.touch()
        for table in (data["plan"], data["full"]):
            Plan.from_json(table)
        return data if all(len(pair) == 2 for pair in data["here"]) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def store(name: str, plans: Plans) -> None:
    """Keep the plans of a key, and drop the oldest ones; a folder that cannot be written is left alone."""
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError):
        place.mkdir(parents=True, exist_ok=True)
        # Another run may read the file at the same time: it is there whole, or not at all.
        with tempfile.NamedTemporaryFile("w", dir=place, suffix=".part", delete=False) as scratch:
            json.dump(plans, scratch, separators=(",", ":"))
        os.replace(scratch.name, place / f"{name}.json")
        files = sorted(place.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
        for old in files[KEPT:]:
            old.unlink(missing_ok=True)
