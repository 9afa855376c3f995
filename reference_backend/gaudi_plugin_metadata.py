"""Write metadata for the distribution name `habana-torch-plugin`, by which some programs detect Gaudi.

The wheel of this backend contains the metadata, so that such programs detect Gaudi after ``pip install`` of
the backend alone. No code is installed under that name. The metadata is omitted if the Intel Gaudi bridge
(for real hardware) is installed, because the bridge is the real distribution `habana-torch-plugin`.
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
    """Write the metadata of `habana-torch-plugin` into a folder, unless the Intel Gaudi bridge is installed.

    Args:
        folder: a folder of ``sys.path``, or the folder from which a wheel is made.
        version: version of this backend. The function appends ``+reference``, a local label that prevents an
            upload to a package index.
        environment: folders that may contain the bridge; by default the package folders of this environment.
    """
    if (
        find_installed_plugin_library(environment_folders() if environment is None else environment)
        is not None
    ):
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
    """Return the folders in which this environment may have installed packages.

    The list is not just ``sys.path``, because an isolated build (PEP 517) hides the environment's packages.
    """
    return list(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path]))


def find_installed_plugin_library(folders: Iterable[str]) -> str | None:
    """Return the path of the plugin library of the Intel Gaudi bridge, or None if it is not installed.

    Args:
        folders: folders that may contain installed packages.
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
