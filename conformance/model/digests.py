"""Compute digests of the files that the results of a run depend on. Results files are merged only if their
digests are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

_SUITE_SUFFIXES = (".py", ".toml", ".json")
_BACKEND_SUFFIXES = (".py", ".so")
#: The digest uses only the name and size of larger files, because reading gigabytes of libraries would take
#: minutes.
_LARGE = 64 << 20


def digest_of_files(root: Path, paths: Iterable[Path]) -> str:
    """Return the digest of the names (relative to ``root``) and contents of files."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        size = path.stat().st_size
        content = path.read_bytes() if size <= _LARGE else b"large"
        digest.update(f"{path.relative_to(root).as_posix()}\0{size}\0".encode())
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def suite_digest() -> str:
    """Return the digest of the suite: code, schemas, levels and targets."""
    root = Path(__file__).parent.parent
    skipped = root / "expectations" / "files"
    return digest_of_files(
        root,
        (path for path in root.rglob("*") if path.suffix in _SUITE_SUFFIXES and skipped not in path.parents),
    )


def package_digest(root: Path) -> str:
    """Return the digest of an installed package: its Python files and shared libraries."""
    return digest_of_files(
        root, (path for path in root.rglob("*") if path.suffix in _BACKEND_SUFFIXES and path.is_file())
    )
