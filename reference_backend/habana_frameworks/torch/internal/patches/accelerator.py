"""Make `torch.accelerator` return the number of hpu devices and the memory snapshot of hpu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.internal.device_type import device_module

import torch

from .wrap_function import replace_function


def patch_device_count() -> None:
    """Make `torch.accelerator.device_count` of torch 2.6 agree with `torch.hpu.device_count`."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 7):
        replace_function(torch.accelerator, "device_count", _wrap_device_count)


def patch_memory_snapshot() -> None:
    """Make `torch.accelerator.memory._snapshot`, which supports CUDA and XPU, return the hpu snapshot."""
    memory = getattr(torch.accelerator, "memory", None)
    if memory is not None and hasattr(memory, "_snapshot"):
        replace_function(memory, "_snapshot", _wrap_snapshot)


def _wrap_snapshot(original: Callable[..., Any]) -> Callable[..., Any]:
    def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> Any:
        snapshot = device_module().memory._snapshot
        return snapshot(device, augment_with_fx_traces=augment_with_fx_traces)

    return _snapshot


def _wrap_device_count(original: Callable[[], int]) -> Callable[[], int]:
    def device_count() -> int:
        count: int = device_module().device_count()
        return count

    return device_count
