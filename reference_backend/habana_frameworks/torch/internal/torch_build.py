"""Identify a build of torch, to choose a compiled core that fits it.

setup.py loads this file by its path, so this file imports the standard library only.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

#: Files that a core is compiled against and linked with.
_BINARIES = ("torch/include/", "torch/lib/")


#: The dispatch keys for which the core can be built, and the device type of each.
DEVICE_TYPES = {"HPU": "hpu", "PrivateUse1": "refdev"}


def core_folder_name(version: str, cxx11_abi: bool, fork: bool, dispatch_key: str = "HPU") -> str:
    """Return the folder name of the core for a torch build, for example ``torch2_13_abi1_fork``.

    The name is also a valid Python identifier. ``dispatch_key`` is a key of :data:`DEVICE_TYPES`.
    """
    major, minor = version.partition("+")[0].split(".")[:2]
    kind = "fork" if fork else "public"
    suffix = "" if dispatch_key == "HPU" else f"_{dispatch_key.lower()}"
    return f"torch{major}_{minor}_abi{int(cxx11_abi)}_{kind}{suffix}"


def torch_binaries_digest(torch_file: str, version: str) -> str | None:
    """Return a digest of torch's headers and libraries, computed from the RECORD file of its wheel.

    Args:
        torch_file: ``torch.__file__``.
        version: ``torch.__version__``.

    Returns:
        The digest, or None if RECORD does not exist (torch was built in its source tree).
    """
    site = Path(torch_file).parent.parent
    # Try the version with and without its local label: in PyPI's wheels, only ``torch.__version__`` has it.
    names = [f"torch-{name}.dist-info" for name in (version, version.partition("+")[0])]
    record = next((site / name / "RECORD" for name in names if (site / name / "RECORD").is_file()), None)
    if record is None:
        return None
    text = record.read_text()
    lines = sorted(line for line in text.splitlines() if line.startswith(_BINARIES))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else None
