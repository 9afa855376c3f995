"""Compiled code in its folder; separate from the compiler, whose imports only workers need."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .description import VERSION

CODE, CONVENTION = "code.so", "convention.json"


@dataclass(frozen=True)
class Artifact:
    """Compiled code: `code` takes the tensors of `convention["arguments"]`, in order, and returns nothing."""

    folder: Path
    convention: dict[str, Any]

    @property
    def code(self) -> Path:
        """The shared object."""
        return self.folder / CODE

    @staticmethod
    def load(folder: Path) -> Artifact:
        """Load the artifact in a folder.

        Raises:
            OSError: a file cannot be read.
            ValueError: the artifact is incomplete or of another version.
        """
        convention = json.loads((folder / CONVENTION).read_text())
        if convention.get("version") != VERSION or not (folder / CODE).exists():
            raise ValueError(f"{folder} holds no code of version {VERSION}")
        return Artifact(folder, convention)
