"""Hooks of a target file replace ``torch.accelerator`` for a device that ``torch.accelerator``
does not know.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch

from conformance.device import memory
from conformance.device.bring_up import check_device
from conformance.target import file as target_file
from conformance.target.target import Target

CALLS: list[object] = []


def synchronize() -> None:
    CALLS.append("synchronize")


def manual_seed(seed: int) -> None:
    CALLS.append(seed)


def device_count() -> int:
    return 3


def memory_allocated() -> int:
    return 1024


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    """Return a target whose device ``torch.accelerator`` does not know. A call of ``torch.accelerator`` fails
    the test.
    """

    def fail(*arguments: object) -> None:
        raise AssertionError("torch.accelerator was called for a device that it does not know")

    for name in ("synchronize", "current_accelerator", "device_count", "memory_allocated"):
        monkeypatch.setattr(torch.accelerator, name, fail, raising=False)
    monkeypatch.setattr(torch, "get_device_module", fail)
    CALLS.clear()
    return dataclasses.replace(
        target_file.load("cpu").target("eager"), device="hpu", capabilities={"accelerator": False}
    )


def test_without_hooks_nothing_is_asked(target: Target) -> None:
    target.synchronize()
    target.seed(4)
    check_device(target)
    assert (target.device_count(), target.has_graphs, memory.allocated_bytes_counter(target)) == (
        1,
        False,
        None,
    )


def test_hooks_are_called(target: Target) -> None:
    names = ("synchronize", "manual_seed", "device_count", "memory_allocated")
    target = dataclasses.replace(target, hooks={name: f"{__name__}:{name}" for name in names})
    target.synchronize()
    target.seed(4)
    assert CALLS == ["synchronize", 4]
    assert target.device_count() == 3
    count = memory.allocated_bytes_counter(target)
    assert count is not None and count() == 1024
