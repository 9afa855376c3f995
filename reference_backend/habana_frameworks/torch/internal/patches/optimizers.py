"""Add hpu to the devices on which optimizers use their foreach and fused implementations."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

from .wrap_function import replace_function


def patch_foreach_devices() -> None:
    """Add hpu to torch's lists of the devices that support the optimizers' foreach and fused code."""
    # Some modules imported the functions by name, so the functions are replaced in each of these modules.
    for holder in ("torch.utils._foreach_utils", "torch.optim.optimizer", "torch.optim.swa_utils"):
        module = importlib.import_module(holder)
        for name in ("_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices"):
            if hasattr(module, name):
                replace_function(module, name, _wrap_supported_devices)


def _wrap_supported_devices(original: Callable[[], list[str]]) -> Callable[[], list[str]]:
    def supported_devices() -> list[str]:
        devices = original()
        return devices if DEVICE_TYPE in devices else [*devices, DEVICE_TYPE]

    return supported_devices
