"""Reduce the time of Python's garbage collector in a process that keeps many objects."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_resting = 0
_was_on = False


@contextlib.contextmanager
def disable_garbage_collector() -> Iterator[None]:
    """Disable the garbage collector inside the block.

    Several threads may be inside the block. When the last thread leaves, the collector is enabled again, if
    it was enabled before the first thread entered.
    """
    global _resting, _was_on
    with _lock:
        if not _resting:
            _was_on = gc.isenabled()
            gc.disable()
        _resting += 1
    try:
        yield
    finally:
        with _lock:
            _resting -= 1
            if not _resting and _was_on:
                gc.enable()


class LiveObjectFreezer:
    """Excludes long-lived objects from garbage collection, so that no collection traverses them again.

    A worker holds many long-lived objects of torch, torch's databases and torch's compiler. In two workers
    that traced graphs, full collections took 6 % and 11 % of the time. An excluded object that is part of a
    reference cycle is never freed.
    """

    def __init__(self) -> None:
        self._seen = 0

    def freeze_live_objects(self) -> None:
        """If a full collection has run since the last call, collect garbage and exclude all live objects.

        Call this between two cases: objects of a running case would be excluded too and might never be freed.
        """
        if self._collections() != self._seen:
            gc.collect()
            gc.freeze()
            self._seen = self._collections()

    @staticmethod
    def _collections() -> int:
        return int(gc.get_stats()[-1]["collections"])
