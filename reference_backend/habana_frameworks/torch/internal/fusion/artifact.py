"""A compiled graph on disk. This module does not import the compiler, which only subprocesses need."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .description import VERSION

CODE, CONVENTION = "code.so", "convention.json"


@dataclass(frozen=True)
class Artifact:
    """Compiled code in a folder. The code takes the tensors listed in `convention["arguments"]`, in order."""

    folder: Path
    convention: dict[str, Any]

    @property
    def code(self) -> Path:
        """Return the path of the shared object."""
        return self.folder / CODE

    @staticmethod
    def load(folder: Path) -> Artifact:
        """Load the artifact in a folder.

        Raises:
            OSError: a file cannot be read.
            ValueError: the artifact is incomplete or has a different version.
        """
        convention = json.loads((folder / CONVENTION).read_text())
        if convention.get("version") != VERSION or not (folder / CODE).exists():
            raise ValueError(f"{folder} does not contain compiled code of version {VERSION}")
        return Artifact(folder, convention)
