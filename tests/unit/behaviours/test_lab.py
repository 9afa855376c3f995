"""Tests of Lab: objects that the pending work of a device still references."""

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
    """An object that a weak reference can watch."""

    itself: Any = None


@pytest.fixture
def pending(monkeypatch: pytest.MonkeyPatch) -> list[Thing]:
    """Return a list that pending device work references until the device is synchronized."""
    unreleased: list[Thing] = []
    monkeypatch.setattr(Target, "synchronize", lambda target: unreleased.clear())
    return unreleased


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
    unreleased = {1: [Thing()], 2: [Thing()]}
    watched = [weakref.ref(things[0]) for things in unreleased.values()]
    monkeypatch.setattr(Target, "synchronize", lambda target: unreleased and unreleased.popitem())
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
