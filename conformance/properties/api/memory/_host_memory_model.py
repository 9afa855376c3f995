"""Memory interfaces for the memory behaviours: ``torch.accelerator`` for the device, and a model of the
documented statistics for the CPU.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch

from conformance.behaviours.lab import Lab

STATISTICS = ("allocated_bytes", "reserved_bytes", "active_bytes")
#: More bytes than the memory of any machine. The number does not overflow a signed 64-bit integer.
TOO_MUCH = 1 << 52


class DeviceMemory:
    """Allocation and memory statistics of the lab's device. Tests of the behaviours replace this class by a
    faulty class.
    """

    def __init__(self, lab: Lab) -> None:
        self.device = lab.device

    def allocate(self, size: int) -> torch.Tensor:
        """Return a tensor of ``size`` bytes; raise ``torch.OutOfMemoryError`` if this much memory is not
        available.
        """
        return torch.empty(size, dtype=torch.uint8, device=self.device)

    def collect_garbage(self) -> None:
        """Free objects that only reference cycles keep alive. Otherwise Python's garbage collector could free
        them while memory is measured.
        """
        gc.collect()
        self.wait_for_frees()

    def wait_for_frees(self) -> None:
        """Wait until the memory of all deleted tensors is free."""
        torch.accelerator.synchronize()

    def allocated(self) -> int:
        return int(torch.accelerator.memory_allocated(self.device))

    def reserved(self) -> int:
        return int(torch.accelerator.memory_reserved(self.device))

    def peak(self) -> int:
        return int(torch.accelerator.max_memory_allocated(self.device))

    def reset_peak(self) -> None:
        torch.accelerator.reset_peak_memory_stats(self.device)

    def reset_accumulated_totals(self) -> None:
        torch.accelerator.reset_accumulated_memory_stats(self.device)

    def stats(self) -> dict[str, Any]:
        return dict(torch.accelerator.memory_stats(self.device))

    def empty_cache(self) -> None:
        torch.accelerator.empty_cache()


class SimulatedMemory(DeviceMemory):
    """A model of the documented statistics for the CPU, which has no memory statistics. It counts only
    tensors from :meth:`allocate`.
    """

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.current_bytes = self.peak_bytes = self.reserved_bytes = self.allocated_total = (
            self.freed_total
        ) = 0

    def allocate(self, size: int) -> torch.Tensor:
        if size >= TOO_MUCH:
            raise torch.OutOfMemoryError(f"{size} bytes are not available")
        tensor = super().allocate(size)
        self.current_bytes += size
        self.allocated_total += size
        self.peak_bytes = max(self.peak_bytes, self.current_bytes)
        self.reserved_bytes = max(self.reserved_bytes, self.current_bytes)
        weakref.finalize(tensor.untyped_storage(), self._count_freed_bytes, size)
        return tensor

    def _count_freed_bytes(self, size: int) -> None:
        self.current_bytes -= size
        self.freed_total += size

    def wait_for_frees(self) -> None:
        return None

    def allocated(self) -> int:
        return self.current_bytes

    def reserved(self) -> int:
        return self.reserved_bytes

    def peak(self) -> int:
        return self.peak_bytes

    def reset_peak(self) -> None:
        self.peak_bytes = self.current_bytes

    def reset_accumulated_totals(self) -> None:
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

    def empty_cache(self) -> None:
        self.reserved_bytes = self.current_bytes


def default_memory_interface(lab: Lab) -> DeviceMemory:
    """Return the memory interface of the device, or the model if the lab runs on the CPU."""
    return SimulatedMemory(lab) if lab.device.type == "cpu" else DeviceMemory(lab)


_memory_factory: Callable[[Lab], DeviceMemory] = default_memory_interface


def memory_interface_of_lab(lab: Lab) -> DeviceMemory:
    """Return the memory interface for a lab: the default, or the replacement that a test has set."""
    return _memory_factory(lab)


def replace_memory_interface(make: Callable[[Lab], DeviceMemory] | None) -> None:
    """Make :func:`memory_interface_of_lab` return the result of ``make`` (for tests). None restores the
    default.
    """
    global _memory_factory
    _memory_factory = make or default_memory_interface
