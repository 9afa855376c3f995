"""``process_control.garbage_collector`` freezes objects that a process retains, so that Python's garbage
collector skips them, and turns the collector off temporarily.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from conformance.process_control.garbage_collector import LiveObjectFreezer, disable_garbage_collector


@pytest.fixture(autouse=True)
def _unfreeze_garbage() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_objects_that_outlive_a_collection_are_frozen() -> None:
    settling = LiveObjectFreezer()
    settling.freeze_live_objects()
    gc.unfreeze()
    settling.freeze_live_objects()
    assert gc.get_freeze_count() == 0, "objects were frozen although no collection ran since the last call"
    gc.collect()
    settling.freeze_live_objects()
    assert gc.get_freeze_count() > 1000


class CyclicNode:
    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_not_frozen() -> None:
    settling = LiveObjectFreezer()
    gc.collect()
    gc.disable()
    try:
        node = weakref.ref(CyclicNode())
        assert node() is not None
        settling.freeze_live_objects()
        assert node() is None
    finally:
        gc.enable()


def test_garbage_after_the_freeze_is_still_collected() -> None:
    gc.collect()
    LiveObjectFreezer().freeze_live_objects()
    CyclicNode()
    assert gc.collect() >= 1


def test_the_collector_is_on_after_overlapping_threads() -> None:
    entered = threading.Barrier(2)

    def work() -> None:
        with disable_garbage_collector():
            entered.wait()

    thread = threading.Thread(target=work)
    thread.start()
    with disable_garbage_collector():
        entered.wait()
        thread.join()
        assert not gc.isenabled(), (
            "the collector is on although one thread is still inside disable_garbage_collector()"
        )
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with disable_garbage_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
