"""Statistics of a device's memory."""

from __future__ import annotations

from collections.abc import Callable

import torch

from conformance.target.target import Target


def allocated(target: Target) -> Callable[[], int] | None:
    """Return what counts the device's allocated bytes once its work is done; None if nothing does."""
    if target.is_cpu or not target.capable("memory_statistics"):
        return None
    module, general = torch.get_device_module(target.device), torch.accelerator
    ask = getattr(module, "memory_allocated", getattr(general, "memory_allocated", None))
    if ask is None:
        return None

    def count() -> int:
        target.synchronize()
        return int(ask(target.torch_device))

    return count
