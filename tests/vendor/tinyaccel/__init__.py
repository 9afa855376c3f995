"""A small artificial device, which this module registers with torch as ``tiny``.

In the tests of the suite, the device plays the role of a vendor's package during bring-up. The environment
variable ``TINY_STAGE`` selects a stage of the development. The default is the last stage. Each stage adds
features:

1. memory, factories and copies (torch does not know yet that an accelerator exists)

2. the hooks through which torch finds the accelerator, and the functions of the device module that torch
   calls

3. synchronisation and the first kernels

4. the operators that models use
"""

from __future__ import annotations

import os
import sys

import torch
from tinyaccel_build import built_library_path

__version__ = "0.4"

STAGE = int(os.environ.get("TINY_STAGE", "99"))

_library = built_library_path()
if not _library.exists():
    raise ImportError(f"{_library} does not exist; build it with 'python -m tinyaccel_build'")
torch.utils.rename_privateuse1_backend("tiny")
torch.ops.load_library(str(_library))
torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_storage=False)

if STAGE >= 2:

    def is_available() -> bool:
        """Return True, because one device always exists."""
        return True

    def is_initialized() -> bool:
        """Return True, because the device needs no initialisation."""
        return True

    def device_count() -> int:
        """Return 1."""
        return 1

    def current_device() -> int:
        """Return 0, the index of the only device."""
        return 0

    def set_device(device: object) -> None:
        """Accept the only device, and raise RuntimeError for any other."""
        index = torch.device("tiny", device) if isinstance(device, int) else torch.device(device)  # type: ignore[arg-type]
        if index.type != "tiny" or index.index not in (None, 0):
            raise RuntimeError(f"tiny has one device, number 0; {device!r} does not exist")


if STAGE >= 3:

    def synchronize(device: object = None) -> None:
        """Do nothing, because each kernel has finished when its call returns."""


torch._register_device_module("tiny", sys.modules[__name__])
