"""``Lab.gone`` detects whether an object was freed, although pending device work may still refer to the
object.
"""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import pytest
import torch

from conformance.behaviours.lab import Lab
from conformance.target import file as target_file
from conformance.target.target import Target

TARGET = target_file.load("cpu").target("eager")


class WeakReferable:
    """An object that a weak reference can watch."""

    itself: Any = None


@pytest.fixture
def objects_of_pending_work(monkeypatch: pytest.MonkeyPatch) -> list[WeakReferable]:
    """Return the list of objects to which pending device work refers. Synchronizing the device clears the
    list.
    """
    unreleased: list[WeakReferable] = []
    monkeypatch.setattr(Target, "synchronize", lambda target: unreleased.clear())
    return unreleased


def test_an_object_of_pending_work_is_gone_after_the_work(
    objects_of_pending_work: list[WeakReferable],
) -> None:
    thing = WeakReferable()
    objects_of_pending_work.append(thing)
    watch = weakref.ref(thing)
    del thing
    assert watch() is not None
    assert Lab(TARGET, "float32", 0, on_target=True).gone(watch)


def test_a_referenced_object_is_not_gone(objects_of_pending_work: list[WeakReferable]) -> None:
    thing = WeakReferable()
    assert not Lab(TARGET, "float32", 0, on_target=True).gone(
        weakref.ref(WeakReferable()), weakref.ref(thing)
    )


def test_a_device_may_release_objects_shortly_after_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    unreleased = {1: [WeakReferable()], 2: [WeakReferable()]}
    watched = [weakref.ref(things[0]) for things in unreleased.values()]
    monkeypatch.setattr(Target, "synchronize", lambda target: unreleased and unreleased.popitem())
    assert Lab(TARGET, "float32", 0, on_target=True).gone(*watched)


def test_reference_cycles_of_pending_work_are_collected(objects_of_pending_work: list[WeakReferable]) -> None:
    gc.disable()
    try:
        thing = WeakReferable()
        thing.itself = thing
        objects_of_pending_work.append(thing)
        watch = weakref.ref(thing)
        del thing
        lab = Lab(TARGET, "float32", 0, on_target=True)
        lab.collect()
        assert lab.gone(watch)
    finally:
        gc.enable()


def test_without_strides_and_storages_the_lab_records_neither() -> None:
    target = dataclasses.replace(
        target_file.load("cpu").target("eager"), capabilities={"strides": False, "storage": False}
    )
    lab = Lab(target, "float32", 0, on_target=True)
    base = lab.integers(2, 3)
    assert lab.strides(base.t()) == ()
    lab.shares("a copy", base, base.clone())
    assert not lab.observations and not lab.deviations and lab.nothing_due_reason is not None


def test_strides_of_dimensions_of_size_one_are_left_out() -> None:
    lab = Lab(target_file.load("cpu").target("eager"), "float32", 0, on_target=True)
    assert lab.strides(torch.ones(2, 1, 3)) == (3, 1) and lab.strides(torch.ones(0, 3)) == ()
    lab.shares("a copy", torch.ones(2), torch.ones(2))
    assert len(lab.deviations) == 1
