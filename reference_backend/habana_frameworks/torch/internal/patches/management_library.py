"""Make `pyhlml`, the Python API of Gaudi's management library, load the library of the simulated device."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from .import_hooks import run_after_import


def patch_pyhlml_library_path() -> None:
    """Let `pyhlml` load ``libhlml.so`` of `hpu_reference_tools` if the path fixed in `pyhlml` does not exist.

    A program that imports `pyhlml` without torch needs the symbolic link that ``hpu-reference-hlml link``
    creates.
    """
    run_after_import("pyhlml.hlml_lib", _set_default_path)


def _set_default_path(module: ModuleType) -> None:
    (system_path,) = module.LibHLML.__init__.__defaults__
    tools = importlib.util.find_spec("hpu_reference_tools")
    if Path(system_path).exists() or tools is None or tools.origin is None:
        return
    module.LibHLML.__init__.__defaults__ = (str(Path(tools.origin).with_name("libhlml.so")),)
