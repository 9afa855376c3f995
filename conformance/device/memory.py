"""Read the memory statistics of a device."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from conformance.target.target import Target


def allocated_bytes_counter(target: Target) -> Callable[[], int] | None:
    """Return a function that waits for the device and returns the number of its allocated bytes. Return None
    if the device has no memory statistics.
    """
    if target.is_cpu or not target.capable("memory_statistics"):
        return None
    memory_allocated = target.hook("memory_allocated")
    if memory_allocated is None and target.is_known_to_torch_accelerator:
        module, general = torch.get_device_module(target.device), torch.accelerator
        function = getattr(module, "memory_allocated", getattr(general, "memory_allocated", None))
        memory_allocated = function and functools.partial(function, target.torch_device)
    if memory_allocated is None:
        return None

    def count() -> int:
        target.synchronize()
        return int(memory_allocated())

    return count
