"""Register the device module with torch."""

from __future__ import annotations

import sys
from types import ModuleType

import torch


def register_device_module(module: ModuleType) -> None:
    """Make `module` and its submodules importable as ``torch.hpu``.

    ``import torch.hpu.random`` must not execute a file a second time. Therefore the names below ``torch.hpu``
    are aliases of the loaded modules.

    Raises:
        ImportError: another backend has already registered a module for hpu.
    """
    present = getattr(torch, "hpu", None)
    if present is not module:
        if present is not None:
            raise ImportError(
                f"torch.hpu is already registered by {present!r}. A process can load one hpu backend. Do not "
                "import the other backend."
            )
        torch._register_device_module("hpu", module)
    prefix = module.__name__ + "."
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        sys.modules["torch.hpu." + name[len(prefix) :]] = sys.modules[name]
