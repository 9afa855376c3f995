"""The number of devices that `torch.accelerator` reports."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .replacing import replace


def count_devices() -> None:
    """Make `torch.accelerator.device_count` of torch 2.6 agree with `torch.hpu.device_count`."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 7):
        replace(torch.accelerator, "device_count", _counting_hpu)


def _counting_hpu(original: Callable[[], int]) -> Callable[[], int]:
    def device_count() -> int:
        return torch.hpu.device_count()

    return device_count
