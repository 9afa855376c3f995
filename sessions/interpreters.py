"""Find the Python interpreters of the machine."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

#: Major and minor version of the session's own Python.
OWN_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@functools.cache
def interpreter_of(version: str) -> Path | None:
    """Return a Python of a version (``3.10``) from the PATH or from pyenv, or None if no such Python runs."""
    if version == OWN_PYTHON:
        return Path(sys.executable)
    on_path = shutil.which(f"python{version}")
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in [
        *([Path(on_path)] if on_path else []),
        *sorted(versions.glob(f"{version}.*/bin/python")),
    ]:
        # Run the candidate to check its version: pyenv has a shim for every version, which works only if the
        # version is activated.
        code = "import sys; print(*sys.version_info[:2], sep='.')"
        done = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return candidate
    return None
