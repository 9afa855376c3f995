"""Shared modules of several test folders: artificial subjects, results, devices and programs."""

from __future__ import annotations

import os
from pathlib import Path

#: The root of the repository.
ROOT = Path(__file__).resolve().parents[2]


def python_path(*folders: Path) -> str:
    """Return the value of PYTHONPATH for a process that imports ``conformance``, ``tests`` and the modules in
    ``folders``.
    """
    return os.pathsep.join([*map(str, folders), str(ROOT), os.environ.get("PYTHONPATH", "")])
