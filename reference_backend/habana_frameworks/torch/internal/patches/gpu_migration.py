"""Load GPU migration if requested."""

from __future__ import annotations

import importlib

from ..settings import bridge_config


def load_if_requested() -> None:
    """Import `habana_frameworks.torch.gpu_migration` if ``PT_HPU_GPU_MIGRATION`` is true."""
    if bridge_config.value_of("PT_HPU_GPU_MIGRATION"):
        importlib.import_module("habana_frameworks.torch.gpu_migration")
