"""A device as it looks early in its bring-up: the module that registers it with torch as ``tiny``.

It replaces a vendor's own package in the tests of the suite. ``TINY_STAGE`` says how far it has come;
without it everything is there that ever will be:

1. memory, factories and copies; torch does not learn that there is an accelerator
2. the hooks through which torch finds the accelerator, and the functions of its module that torch calls
3. synchronisation, the first kernels
4. the operators that models are made of
"""

from __future__ import annotations

import os
import sys

import torch
from tinyaccel_build import library

__version__ = "0.4"

STAGE = int(os.environ.get("TINY_STAGE", "99"))

_library = library()
if not _library.exists():
    raise ImportError(f"{_library} does not exist; build it with 'python -m tinyaccel_build'")
torch.utils.rename_privateuse1_backend("tiny")
torch.ops.load_library(str(_library))
torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_storage=False)

if STAGE >= 2:

    def is_available() -> bool:
        """There is always one device."""
        return True

    def is_initialized() -> bool:
        """There is nothing to initialise."""
        return True

    def device_count() -> int:
        """One device."""
        return 1

    def current_device() -> int:
        """The one device."""
        return 0

    def set_device(device: object) -> None:
        """Accept the one device."""
        index = torch.device("tiny", device) if isinstance(device, int) else torch.device(device)  # type: ignore[arg-type]
        if index.type != "tiny" or index.index not in (None, 0):
            raise RuntimeError(f"tiny has one device, number 0; {device!r} does not exist")


if STAGE >= 3:

    def synchronize(device: object = None) -> None:
        """Nothing is ever pending: each kernel has finished when its call returns."""


torch._register_device_module("tiny", sys.modules[__name__])
