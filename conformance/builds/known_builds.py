"""Load the known builds of torch, which are identified by the digest of their files."""

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
class KnownBuild:
    """A known build: its kind, and the name of its wheel."""

    kind: str
    name: str


@functools.cache
def known_builds() -> dict[str, KnownBuild]:
    """Return the known builds by the digest of :func:`conformance.builds.describe.digest_of_record`."""
    data = tomllib.loads((Path(__file__).parent / "known_builds.toml").read_text())
    return {entry["record"]: KnownBuild(entry["kind"], entry["name"]) for entry in data.get("build", ())}
