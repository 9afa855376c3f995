"""Register the device module with torch."""

from __future__ import annotations

import sys
from types import ModuleType

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE, DISPATCH_KEY

import torch
from torch.utils import backend_registration


def register_device_module(module: ModuleType) -> None:
    """Make `module` and its submodules importable as ``torch.hpu``, or ``torch.refdev`` (see `DEVICE_TYPE`).

    ``import torch.hpu.random`` must not execute a file a second time. Therefore the names below ``torch.hpu``
    are aliases of the loaded modules.

    Raises:
        ImportError: another backend has already registered a module for the device type.
    """
    if DISPATCH_KEY == "PrivateUse1":
        backend_registration.rename_privateuse1_backend(DEVICE_TYPE)
    present = getattr(torch, DEVICE_TYPE, None)
    if present is not module:
        if present is not None:
            raise ImportError(
                f"torch.{DEVICE_TYPE} is already registered by {present!r}. A process can load one backend "
                f"for {DEVICE_TYPE}. Do not import the other backend."
            )
        torch._register_device_module(DEVICE_TYPE, module)
        if DISPATCH_KEY == "PrivateUse1":
            backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    prefix = module.__name__ + "."
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        sys.modules[f"torch.{DEVICE_TYPE}.{name[len(prefix) :]}"] = sys.modules[name]
