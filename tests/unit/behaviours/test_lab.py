"""Objects that a device's pending work still holds, as a lab sees them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from conformance.behaviours.lab import Lab
from conformance.target import file as target_file
from conformance.target.target import Target

TARGET = target_file.load("cpu").target("eager")


class Thing:
    """Something that can be watched."""

    itself: Any = None


@pytest.fixture
def pending(monkeypatch: pytest.MonkeyPatch) -> list[Thing]:
    """Objects that a device's work holds until it is waited for."""
    held: list[Thing] = []
    monkeypatch.setattr(Target, "synchronize", lambda target: held.clear())
    return held


def test_what_pending_work_holds_is_gone_once_it_is_done(pending: list[Thing]) -> None:
    thing = Thing()
    pending.append(thing)
    watch = weakref.ref(thing)
    del thing
    assert watch() is not None
    assert Lab(TARGET, "float32", 0, on_target=True).gone(watch)


def test_what_somebody_holds_is_not_gone(pending: list[Thing]) -> None:
    thing = Thing()
    assert not Lab(TARGET, "float32", 0, on_target=True).gone(weakref.ref(Thing()), weakref.ref(thing))


def test_a_device_may_let_go_a_little_after_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {1: [Thing()], 2: [Thing()]}
    watched = [weakref.ref(things[0]) for things in held.values()]
    monkeypatch.setattr(Target, "synchronize", lambda target: held and held.popitem())
    assert Lab(TARGET, "float32", 0, on_target=True).gone(*watched)


def test_cycles_that_pending_work_holds_are_collected(pending: list[Thing]) -> None:
    gc.disable()
    try:
        thing = Thing()
        thing.itself = thing
        pending.append(thing)
        watch = weakref.ref(thing)
        del thing
        lab = Lab(TARGET, "float32", 0, on_target=True)
        lab.collect()
        assert lab.gone(watch)
    finally:
        gc.enable()
