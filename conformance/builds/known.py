"""Builds of torch that are known by the digest of their files."""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclasses.dataclass(frozen=True)
class Known:
    """A build that somebody has vouched for: its kind, and the wheel's name."""

    kind: str
    name: str


@functools.cache
def builds() -> dict[str, Known]:
    """Known builds by the digest that :func:`conformance.builds.describe.digest` gives."""
    data = tomllib.loads((Path(__file__).parent / "known.toml").read_text())
    return {entry["record"]: Known(entry["kind"], entry["name"]) for entry in data.get("build", ())}
