"""``device.bring_up`` rejects a target whose device is not the accelerator of the process."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from conformance.device.bring_up import check_device
from conformance.errors import UsageError
from conformance.target import file as target_file


def test_a_different_accelerator_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = target_file.load("cpu").target("eager")
    target = dataclasses.replace(cpu, name="mine", device="hpu", module="my_backend")
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: torch.device("xpu"))
    with pytest.raises(
        UsageError, match="the accelerator of this process is 'xpu', not 'hpu' of target 'mine'"
    ):
        check_device(target)
    check_device(cpu)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: None)
    with pytest.raises(UsageError, match="no accelerator is present after importing 'my_backend'"):
        check_device(target)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: torch.device("hpu"))
    check_device(target)
    with pytest.raises(UsageError, match="is unknown to torch"):
        check_device(dataclasses.replace(cpu, device="abacus"))
