"""The memory of a side of a behaviour: the device's by torch.accelerator, the host's by a model of what is
promised.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch

from conformance.behaviours.lab import Lab

STATISTICS = ("allocated_bytes", "reserved_bytes", "active_bytes")
#: More bytes than any machine has, and fewer than overflow.
TOO_MUCH = 1 << 52


class DeviceMemory:
    """Allocation and statistics of the lab's device. Tests pass one that misbehaves."""

    def __init__(self, lab: Lab) -> None:
        self.device = lab.device

    def make(self, size: int) -> torch.Tensor:
        """``size`` bytes; raises torch.OutOfMemoryError if there are not that many."""
        return torch.empty(size, dtype=torch.uint8, device=self.device)

    def collect(self) -> None:
        """Free what only cycles of references hold, so that this does not happen in between."""
        gc.collect()
        self.settle()

    def settle(self) -> None:
        """Wait until all memory without an owner is free."""
        torch.accelerator.synchronize()

    def allocated(self) -> int:
        return int(torch.accelerator.memory_allocated(self.device))

    def reserved(self) -> int:
        return int(torch.accelerator.memory_reserved(self.device))

    def peak(self) -> int:
        return int(torch.accelerator.max_memory_allocated(self.device))

    def reset_peak(self) -> None:
        torch.accelerator.reset_peak_memory_stats(self.device)

    def reset_accumulated(self) -> None:
        torch.accelerator.reset_accumulated_memory_stats(self.device)

    def stats(self) -> dict[str, Any]:
        return dict(torch.accelerator.memory_stats(self.device))

    def empty(self) -> None:
        torch.accelerator.empty_cache()


class ModelMemory(DeviceMemory):
    """The promised statistics, counted: the host keeps none. It knows what :meth:`make` has made."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.current_bytes = self.peak_bytes = self.reserved_bytes = self.allocated_total = (
            self.freed_total
        ) = 0

    def make(self, size: int) -> torch.Tensor:
        if size >= TOO_MUCH:
            raise torch.OutOfMemoryError(f"{size} bytes are more than there are")
        tensor = super().make(size)
        self.current_bytes += size
        self.allocated_total += size
        self.peak_bytes = max(self.peak_bytes, self.current_bytes)
        self.reserved_bytes = max(self.reserved_bytes, self.current_bytes)
        weakref.finalize(tensor.untyped_storage(), self._free, size)
        return tensor

    def _free(self, size: int) -> None:
        self.current_bytes -= size
        self.freed_total += size

    def settle(self) -> None:
        return None

    def allocated(self) -> int:
        return self.current_bytes

    def reserved(self) -> int:
        return self.reserved_bytes

    def peak(self) -> int:
        return self.peak_bytes

    def reset_peak(self) -> None:
        self.peak_bytes = self.current_bytes

    def reset_accumulated(self) -> None:
        self.allocated_total, self.freed_total = 0, 0

    def stats(self) -> dict[str, Any]:
        statistics: dict[str, Any] = {}
        for name in STATISTICS:
            now, most = (
                (self.reserved_bytes, self.reserved_bytes)
                if name == STATISTICS[1]
                else (self.current_bytes, self.peak_bytes)
            )
            statistics |= {f"{name}.all.current": now, f"{name}.all.peak": most}
            statistics |= {
                f"{name}.all.allocated": self.allocated_total,
                f"{name}.all.freed": self.freed_total,
            }
        return statistics

    def empty(self) -> None:
        self.reserved_bytes = self.current_bytes


def default_memory(lab: Lab) -> DeviceMemory:
    """The device's memory, or the model if the side is the host."""
    return ModelMemory(lab) if lab.device.type == "cpu" else DeviceMemory(lab)


_make: Callable[[Lab], DeviceMemory] = default_memory


def memory_of(lab: Lab) -> DeviceMemory:
    """Return the memory of a side."""
    return _make(lab)


def replace_memory(make: Callable[[Lab], DeviceMemory] | None) -> None:
    """Make :func:`of` give another memory (for tests); None puts the real one back."""
    global _make
    _make = make or default_memory
