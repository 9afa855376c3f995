"""Exclude results for older torch releases whose CPU implementation fails them."""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path

from conformance.model.id_patterns import compile_pattern, is_literal
from conformance.model.torch_range import TorchScope

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("release_exclusions.toml")


@dataclasses.dataclass(frozen=True)
class ReleaseExclusion:
    """Results that are excluded for a range of torch releases, and the reason."""

    ids: tuple[str, ...]
    torch: TorchScope
    why: str


@functools.cache
def load(file: Path = FILE) -> tuple[ReleaseExclusion, ...]:
    """Return all exclusions; raise ValueError if the file is invalid."""
    data = tomllib.loads(file.read_text())
    if data.pop("schema", None) != 1 or set(data) - {"absent"}:
        raise ValueError(f"{file.name} must have schema = 1 and no other keys than [[absent]]")
    entries = []
    for entry in data.get("absent", ()):
        if set(entry) != {"ids", "torch", "why"}:
            raise ValueError(
                f"an entry of {file.name} has the keys {sorted(entry)}; the keys must be ids, torch and why"
            )
        entries.append(ReleaseExclusion(tuple(entry["ids"]), TorchScope.parse(entry["torch"]), entry["why"]))
    return tuple(entries)


@functools.cache
def _excluded_patterns(version: str) -> tuple[frozenset[str], tuple[str, ...]]:
    patterns = [pattern for entry in load() if entry.torch.contains_version(version) for pattern in entry.ids]
    literal = frozenset(filter(is_literal, patterns))
    return literal, tuple(pattern for pattern in patterns if pattern not in literal)


def dtypes_without_exclusions(case: str, dtypes: tuple[str, ...], version: str) -> tuple[str, ...]:
    """Return ``dtypes`` without the dtypes in which a case is excluded for a torch release."""
    literal, patterns = _excluded_patterns(version)
    if not literal and not patterns:
        return dtypes
    return tuple(
        dtype
        for dtype in dtypes
        if (name := f"{case}@{dtype}") not in literal
        and not any(compile_pattern(pattern).fullmatch(name) for pattern in patterns)
    )
