"""Build `habana-torch-plugin`, a distribution without files, unless the bridge for hardware is installed."""

from __future__ import annotations

import fnmatch
import glob
import importlib.metadata
import os
import sys
import sysconfig
from collections.abc import Iterable

from setuptools import setup

BRIDGE_LIBRARY = "habana_frameworks/torch/lib/libhabana_pytorch*_plugin*.so"


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


bridge = find_bridge(environment_folders())
if bridge is not None:
    raise SystemExit(
        f"the Intel Gaudi bridge is installed in this environment ({bridge}) and this stub would "
        "replace it. Use another environment, or uninstall habana-torch-plugin first."
    )

setup()
