"""Faulty memory managers, for the behaviours of the memory area."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.behaviours.lab import Lab
from conformance.properties.api.memory import _host_memory_model
from tests.injected_faults.api.faults import NAMED


class _FreesNothing(_host_memory_model.SimulatedMemory):
    """A memory manager that frees nothing."""

    def _count_freed_bytes(self, size: int) -> None:
        return None


class _ReportsZeroFreedBytes(_host_memory_model.SimulatedMemory):
    """A memory manager whose statistics report zero freed bytes."""

    def stats(self) -> dict[str, Any]:
        return super().stats() | {"allocated_bytes.all.freed": 0}


class _RaisesValueErrorWhenFull(_host_memory_model.SimulatedMemory):
    """A memory manager that raises ValueError instead of an out-of-memory error."""

    def allocate(self, size: int) -> torch.Tensor:
        if size >= _host_memory_model.TOO_MUCH:
            raise ValueError("no")
        return super().allocate(size)


class _NeverReusesMemory(_host_memory_model.SimulatedMemory):
    """A memory manager that allocates new system memory for each request."""

    def allocate(self, size: int) -> torch.Tensor:
        block = super().allocate(size)
        self.reserved_bytes += size
        return block


def _fault_of_memory(memory: Callable[[Lab], _host_memory_model.DeviceMemory]) -> Callable[[Lab], Any]:
    @contextlib.contextmanager
    def inject_memory(lab: Lab) -> Iterator[None]:
        _host_memory_model.replace_memory_interface(memory)
        try:
            yield
        finally:
            _host_memory_model.replace_memory_interface(None)

    return inject_memory


NAMED["statistics-add-up"] = _fault_of_memory(_FreesNothing)
NAMED["tables-of-statistics"] = _fault_of_memory(_ReportsZeroFreedBytes)
NAMED["nothing-is-lost"] = _fault_of_memory(_FreesNothing)
NAMED["running-out-of-memory"] = _fault_of_memory(_RaisesValueErrorWhenFull)
NAMED["memory-is-reused"] = _fault_of_memory(_NeverReusesMemory)
