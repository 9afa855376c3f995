"""Registration of the device module with torch."""

from __future__ import annotations

import sys
from types import ModuleType

import torch


def register_device_module(module: ModuleType) -> None:
    """Make `module` and its submodules importable as ``torch.hpu``.

    ``import torch.hpu.random`` must not run a file a second time, so the names below ``torch.hpu`` become
    aliases of the loaded modules.

    Raises:
        ImportError: another backend has registered a module for hpu.
    """
    present = getattr(torch, "hpu", None)
    if present is not module:
        if present is not None:
            raise ImportError(
                f"torch.hpu is taken by {present!r}: one process can hold one backend for hpu, so leave the "
                "other one out"
            )
        torch._register_device_module("hpu", module)
    prefix = module.__name__ + "."
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        sys.modules["torch.hpu." + name[len(prefix) :]] = sys.modules[name]
