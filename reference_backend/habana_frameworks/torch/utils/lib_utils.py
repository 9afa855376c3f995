"""Folders that a C++ extension needs."""

from __future__ import annotations

import os
from pathlib import Path

from habana_frameworks.torch import _C


def get_lib_dir() -> str:
    """Folder of the compiled core."""
    return os.path.dirname(os.path.abspath(_C.__file__))


def get_include_dir() -> str:
    """Folder of the C++ headers: ``hpu_custom_op_pt2.h``."""
    return str(Path(__file__).parents[1] / "include")
