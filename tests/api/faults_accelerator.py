"""Runtimes that misbehave, for the behaviours of the accelerator area."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from faults import NAMED

from conformance.lab import Lab
from conformance.properties.api import _device


class _Nowhere(_device.ModelRuntime):
    """Its current index is beyond the number of its devices."""

    def index(self) -> int:
        return 3


class _Lax(_device.ModelRuntime):
    """Takes any index."""

    def set_index(self, index: Any) -> None:
        self.place = index if isinstance(index, int) else 0


class _Stuck(_device.ModelRuntime):
    """Streams do not become the current one."""

    def current_stream(self) -> Any:
        return self.stream()


def _with(runtime: Callable[[Lab], _device.Runtime]) -> Callable[[Lab], Any]:
    @contextlib.contextmanager
    def around(lab: Lab) -> Iterator[None]:
        _device.replace(runtime)
        try:
            yield
        finally:
            _device.replace(None)

    return around


NAMED["the-accelerator"] = _with(_Nowhere)
NAMED["guards-of-the-device"] = _with(_Lax)
NAMED["streams-as-contexts"] = _with(_Stuck)
