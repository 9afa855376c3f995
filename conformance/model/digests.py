"""Digests of everything that a results file depends on; files may be merged only if they agree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

_SUITE_SUFFIXES = (".py", ".toml", ".json")
_BACKEND_SUFFIXES = (".py", ".so")
#: Files above this size count by name and size: reading gigabytes of vendor libraries would take minutes.
_LARGE = 64 << 20


def files(root: Path, paths: Iterable[Path]) -> str:
    """Digest of the names (relative to ``root``) and contents of files."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        size = path.stat().st_size
        content = path.read_bytes() if size <= _LARGE else b"large"
        digest.update(f"{path.relative_to(root).as_posix()}\0{size}\0".encode())
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def suite() -> str:
    """Digest of the suite itself: code, schemas, levels and targets."""
    root = Path(__file__).parent.parent
    skipped = root / "expectations" / "files"
    return files(
        root,
        (path for path in root.rglob("*") if path.suffix in _SUITE_SUFFIXES and skipped not in path.parents),
    )


def package(root: Path) -> str:
    """Digest of an installed package: its Python files and shared libraries."""
    return files(
        root, (path for path in root.rglob("*") if path.suffix in _BACKEND_SUFFIXES and path.is_file())
    )
