"""Former names of properties and subjects, which resolve to the current names."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path

from conformance.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "files"


@dataclasses.dataclass(frozen=True)
class Aliases:
    """Former names of properties and subjects, with the current names."""

    properties: Mapping[str, str]
    subjects: Mapping[str, str]

    @staticmethod
    def load(path: Path = FOLDER / "aliases.toml") -> Aliases:
        """Read the alias table of the suite."""
        data = tomllib.loads(path.read_text()) if path.is_file() else {}
        for key in data:
            if key not in ("properties", "subjects"):
                raise UsageError(f"aliases {path}: unknown table {key!r}; known are properties and subjects")
        return Aliases(data.get("properties", {}), data.get("subjects", {}))

    def resolve(self, text: str) -> str:
        """Return a result id or pattern with current names."""
        name, slash, rest = text.partition("/")
        subject, at, dtype = rest.rpartition("@")
        return f"{self.properties.get(name, name)}{slash}{self.subjects.get(subject, subject)}{at}{dtype}"
