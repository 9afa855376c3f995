"""The switch for the separate GPU migration package."""

from __future__ import annotations

import importlib
import warnings

from ..settings import bridge_config


def load_if_requested() -> None:
    """Import `habana_frameworks.torch.gpu_migration` if ``PT_HPU_GPU_MIGRATION`` is true.

    That package maps calls for cuda to hpu and comes in a distribution of its own; without it there is only a
    warning, as in the public bridge.
    """
    if not bridge_config.value_of("PT_HPU_GPU_MIGRATION"):
        return
    try:
        importlib.import_module("habana_frameworks.torch.gpu_migration")
    except ImportError as error:
        warnings.warn(
            f"PT_HPU_GPU_MIGRATION is set and the GPU migration package is not loaded ({error}): install it, "
            "or unset the variable",
            RuntimeWarning,
            stacklevel=2,
        )
