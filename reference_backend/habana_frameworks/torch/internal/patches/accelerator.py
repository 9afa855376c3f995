"""Make `torch.accelerator` report the device's count and memory snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .wrap_function import replace


def count_devices() -> None:
    """Make `torch.accelerator.device_count` of torch 2.6 agree with `torch.hpu.device_count`."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 7):
        replace(torch.accelerator, "device_count", _counting_hpu)


def take_snapshots_of_hpu() -> None:
    """Make `torch.accelerator.memory._snapshot` (for CUDA and XPU only) return the hpu snapshot."""
    memory = getattr(torch.accelerator, "memory", None)
    if hasattr(memory, "_snapshot"):
        replace(memory, "_snapshot", _of_hpu)


def _of_hpu(original: Callable[..., Any]) -> Callable[..., Any]:
    def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> Any:
        return torch.hpu.memory._snapshot(device, augment_with_fx_traces=augment_with_fx_traces)

    return _snapshot


def _counting_hpu(original: Callable[[], int]) -> Callable[[], int]:
    def device_count() -> int:
        return torch.hpu.device_count()

    return device_count
