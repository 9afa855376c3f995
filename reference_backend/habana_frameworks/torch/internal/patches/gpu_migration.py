"""Load GPU migration if requested."""

from __future__ import annotations

import importlib

from ..device_type import DEVICE_TYPE
from ..settings import bridge_config


def load_if_requested() -> None:
    """Import `habana_frameworks.torch.gpu_migration` if ``PT_HPU_GPU_MIGRATION`` is true.

    Raises:
        ImportError: the device is not hpu.
    """
    if bridge_config.value_of("PT_HPU_GPU_MIGRATION"):
        if DEVICE_TYPE != "hpu":
            raise ImportError(
                f"PT_HPU_GPU_MIGRATION=1 replaces cuda by hpu, but the device is {DEVICE_TYPE}. Unset "
                "PT_HPU_GPU_MIGRATION or HPU_REFERENCE_KEY."
            )
        importlib.import_module("habana_frameworks.torch.gpu_migration")
