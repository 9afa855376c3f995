"""Metadata of the distribution `habana-torch-plugin`, by which some programs detect Gaudi.

The wheel of the device contains this metadata and no file under this name, so that ``pip install`` of the
device is enough for such programs. The metadata is omitted if the bridge for hardware is installed, because
the bridge is the distribution with this name.
"""

from __future__ import annotations

import fnmatch
import glob
import importlib.metadata
import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

BRIDGE_LIBRARY = "habana_frameworks/torch/lib/libhabana_pytorch*_plugin*.so"


def write_metadata(folder: Path, version: str, environment: Iterable[str] | None = None) -> None:
    """Write the metadata into a folder of distributions, unless the bridge for hardware is installed.

    Args:
        folder: a folder of ``sys.path``, or the folder from which a wheel is made.
        version: the version of the device. The local label ``+reference`` prevents an upload to an index.
        environment: folders that may contain the bridge; by default those of this environment.
    """
    if find_bridge(environment_folders() if environment is None else environment) is not None:
        return
    metadata = folder / "habana_torch_plugin.egg-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "PKG-INFO").write_text(
        "Metadata-Version: 2.1\n"
        "Name: habana-torch-plugin\n"
        f"Version: {version}+reference\n"
        "Summary: For programs that detect Gaudi by this name and version; belongs to hpu-reference-backend\n"
        "Classifier: Private :: Do Not Upload\n"
    )


def environment_folders() -> list[str]:
    """Return the folders of this environment's distributions.

    An isolated build does not have all of them on ``sys.path``.
    """
    return list(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path]))


def find_bridge(folders: Iterable[str]) -> str | None:
    """Return the plugin library of the bridge for hardware, or None if it is not installed.

    Args:
        folders: folders that may contain distributions.
    """
    folders = [folder or os.curdir for folder in folders]
    for folder in folders:
        for path in glob.glob(os.path.join(glob.escape(folder), BRIDGE_LIBRARY)):
            return path
    for distribution in importlib.metadata.distributions(name="habana-torch-plugin", path=folders):
        for file in distribution.files or ():
            if fnmatch.fnmatch(file.as_posix(), BRIDGE_LIBRARY):
                return str(file)
    return None
