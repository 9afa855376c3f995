"""Freezing the objects that a process retains, so that the garbage collector skips them."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from conformance.process_control.garbage_collector import Settling, collector_off


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_objects_that_outlive_a_collection_are_frozen() -> None:
    settling = Settling()
    settling.settle()
    gc.unfreeze()
    settling.settle()
    assert gc.get_freeze_count() == 0, "without a collection no object is frozen"
    gc.collect()
    settling.settle()
    assert gc.get_freeze_count() > 1000


class Node:
    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_not_frozen() -> None:
    settling = Settling()
    gc.collect()
    gc.disable()
    try:
        node = weakref.ref(Node())
        assert node() is not None
        settling.settle()
        assert node() is None
    finally:
        gc.enable()


def test_what_a_case_leaves_later_is_still_collected() -> None:
    gc.collect()
    Settling().settle()
    Node()
    assert gc.collect() >= 1


def test_the_collector_is_on_again_after_threads_that_overlap() -> None:
    entered = threading.Barrier(2)

    def work() -> None:
        with collector_off():
            entered.wait()

    thread = threading.Thread(target=work)
    thread.start()
    with collector_off():
        entered.wait()
        thread.join()
        assert not gc.isenabled(), "one of the two threads is still inside"
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_off():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
