"""Identity of a build of torch, as far as a core depends on it.

setup.py loads this file by its path, so it imports the standard library only.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

#: Files that a core is compiled against and linked with.
_BINARIES = ("torch/include/", "torch/lib/")


def key(version: str, cxx11_abi: bool, fork: bool) -> str:
    """Name of the folder with the core for a build, also a Python name: ``torch2_13_abi1_fork``."""
    major, minor = version.partition("+")[0].split(".")[:2]
    return f"torch{major}_{minor}_abi{int(cxx11_abi)}_{'fork' if fork else 'public'}"


def binaries(torch_file: str, version: str) -> str | None:
    """Digest of torch's headers and libraries, from the record of its wheel.

    Args:
        torch_file: ``torch.__file__``.
        version: ``torch.__version__``.

    Returns:
        The digest, or None if there is no record (torch built in its source tree).
    """
    site = Path(torch_file).parent.parent
    # PyPI's wheels have a local label in the version that torch gives and none in the metadata.
    names = [f"torch-{name}.dist-info" for name in (version, version.partition("+")[0])]
    record = next((site / name / "RECORD" for name in names if (site / name / "RECORD").is_file()), None)
    if record is None:
        return None
    text = record.read_text()
    lines = sorted(line for line in text.splitlines() if line.startswith(_BINARIES))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else None
