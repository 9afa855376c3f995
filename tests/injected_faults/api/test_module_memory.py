"""The behaviours of device modules detect device modules with wrong memory functions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from conformance.properties.api.accelerator import device_module as behaviours


class DeviceModuleCounts:
    """Statistics of a device on which one tensor was allocated, in the format of torch.accelerator."""

    def __init__(self) -> None:
        self.sum, self.free = 4096, 100

    def memory_stats(self) -> dict[str, int]:
        return {"allocated_bytes.all.allocated": self.sum}

    def get_memory_info(self) -> tuple[int, int]:
        return self.free, 200


def _module(**functions: Any) -> SimpleNamespace:
    return SimpleNamespace(**functions)


def test_sums_that_are_not_reset_are_detected() -> None:
    counts = DeviceModuleCounts()
    assert not behaviours._resets_allocation_total_if_supported(
        _module(reset_accumulated_memory_stats=lambda: None), counts
    )
    assert behaviours._resets_allocation_total_if_supported(
        _module(), counts
    )  # a module without the function passes

    def reset() -> None:
        counts.sum = 0

    assert behaviours._resets_allocation_total_if_supported(
        _module(reset_accumulated_memory_stats=reset), counts
    )


def test_freed_memory_of_an_earlier_call_is_detected() -> None:
    counts = DeviceModuleCounts()
    assert not behaviours._reports_same_free_memory(_module(mem_get_info=lambda: (150, 200)), counts)
    assert behaviours._reports_same_free_memory(_module(mem_get_info=counts.get_memory_info), counts)


def test_free_memory_may_change_between_two_reads() -> None:
    counts = DeviceModuleCounts()

    def other_process_allocates() -> tuple[int, int]:
        counts.free -= 10
        return counts.free, 200

    assert behaviours._reports_same_free_memory(_module(mem_get_info=other_process_allocates), counts)
