"""Folders that a C++ extension needs."""

from __future__ import annotations

import os

from habana_frameworks.torch import _C


def get_lib_dir() -> str:
    """Folder of the compiled core."""
    return os.path.dirname(os.path.abspath(_C.__file__))


def get_include_dir() -> str:
    """Folder of the C++ headers."""
    return os.path.join(get_lib_dir(), "include")
