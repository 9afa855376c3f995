"""Entering ``without_garbage_collection`` frees earlier garbage. No garbage is freed inside the context."""

from __future__ import annotations

import gc
import weakref

from conformance.properties.device._device_checks import without_garbage_collection


class _ObjectInCycle:
    """An object in a reference cycle, which only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_freed_before_the_context_and_not_inside() -> None:
    freed: list[str] = []
    weakref.finalize(_ObjectInCycle(), freed.append, "before")
    with without_garbage_collection():
        assert freed == ["before"]
        weakref.finalize(_ObjectInCycle(), freed.append, "meanwhile")
        junk = [_ObjectInCycle() for _ in range(10_000)]  # enough objects to trigger the collector
        del junk
        assert freed == ["before"]
    gc.collect()
    assert freed == ["before", "meanwhile"]
    assert gc.isenabled()
