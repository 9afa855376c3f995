"""Folders for building C++ extensions."""

from __future__ import annotations

import os
from pathlib import Path

from habana_frameworks.torch import _C


def get_lib_dir() -> str:
    """Return the folder of the compiled core."""
    return os.path.dirname(os.path.abspath(str(_C.__file__)))


def get_include_dir() -> str:
    """Return the folder of the C++ headers, such as ``hpu_custom_op_pt2.h``."""
    return str(Path(__file__).parents[1] / "include")
