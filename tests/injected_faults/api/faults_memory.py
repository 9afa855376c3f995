"""Memories that misbehave, for the behaviours of the memory area."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.behaviours.lab import Lab
from conformance.properties.api.memory import _host_memory_model
from tests.injected_faults.api.faults import NAMED


class _Leaks(_host_memory_model.ModelMemory):
    """Frees nothing."""

    def _free(self, size: int) -> None:
        return None


class _LosesCount(_host_memory_model.ModelMemory):
    """Forgets what was freed in its table."""

    def stats(self) -> dict[str, Any]:
        return super().stats() | {"allocated_bytes.all.freed": 0}


class _NeverOut(_host_memory_model.ModelMemory):
    """Raises another error if there is no memory."""

    def make(self, size: int) -> torch.Tensor:
        if size >= _host_memory_model.TOO_MUCH:
            raise ValueError("no")
        return super().make(size)


class _NeverReuses(_host_memory_model.ModelMemory):
    """Takes more from the system each time."""

    def make(self, size: int) -> torch.Tensor:
        made = super().make(size)
        self.reserved_bytes += size
        return made


def _with(memory: Callable[[Lab], _host_memory_model.DeviceMemory]) -> Callable[[Lab], Any]:
    @contextlib.contextmanager
    def around(lab: Lab) -> Iterator[None]:
        _host_memory_model.replace_memory(memory)
        try:
            yield
        finally:
            _host_memory_model.replace_memory(None)

    return around


NAMED["statistics-add-up"] = _with(_Leaks)
NAMED["tables-of-statistics"] = _with(_LosesCount)
NAMED["nothing-is-lost"] = _with(_Leaks)
NAMED["running-out-of-memory"] = _with(_NeverOut)
NAMED["memory-is-reused"] = _with(_NeverReuses)
