"""Levels: how broad a run is."""

from __future__ import annotations

import sys
from pathlib import Path

from conformance.errors import UsageError
from conformance.property import LEVELS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SMOKE = "smoke"
ALL_LEVELS = (SMOKE, *LEVELS)


def check(level: str) -> None:
    """Raise UsageError for a word that is no level."""
    if level not in ALL_LEVELS:
        raise UsageError(f"level {level!r} does not exist; use one of {', '.join(ALL_LEVELS)}")


def includes(level: str, property_level: str) -> bool:
    """Whether a run at ``level`` takes properties of ``property_level``."""
    return LEVELS.index(property_level) <= LEVELS.index(level)


def smoke_subjects(kind: str) -> set[str]:
    """Names of the subjects of the quick choice, from ``smoke.toml``."""
    data = tomllib.loads((Path(__file__).parent / "smoke.toml").read_text())
    return set(data.get(kind, {}).get("subjects", []))
