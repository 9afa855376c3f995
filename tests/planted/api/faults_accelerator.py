"""Runtimes that misbehave, for the behaviours of the accelerator area."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from conformance.behaviours.lab import Lab
from conformance.properties.api.accelerator import _runtime
from tests.planted.api.faults import NAMED


class _Nowhere(_runtime.ModelRuntime):
    """Its current index is beyond the number of its devices."""

    def index(self) -> int:
        return 3


class _Lax(_runtime.ModelRuntime):
    """Takes any index."""

    def set_index(self, index: Any) -> None:
        self.place = index if isinstance(index, int) else 0


class _Stuck(_runtime.ModelRuntime):
    """Streams do not become the current one."""

    def current_stream(self) -> Any:
        return self.stream()


def _with(runtime: Callable[[Lab], _runtime.Runtime]) -> Callable[[Lab], Any]:
    @contextlib.contextmanager
    def around(lab: Lab) -> Iterator[None]:
        _runtime.replace(runtime)
        try:
            yield
        finally:
            _runtime.replace(None)

    return around


NAMED["the-accelerator"] = _with(_Nowhere)
NAMED["guards-of-the-device"] = _with(_Lax)
NAMED["streams-as-contexts"] = _with(_Stuck)
