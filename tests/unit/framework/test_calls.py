"""``framework.calls`` runs calls on a target and keeps their values or errors."""

from __future__ import annotations

import dataclasses
import weakref

import pytest
import torch

from conformance.framework.calls import attempt, attempt_on
from conformance.target import file as target_file


def test_an_error_keeps_no_result_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    target = dataclasses.replace(target_file.load("cpu").target("eager"), device="hpu")
    watched: list[weakref.ref[torch.Tensor]] = []

    def make() -> torch.Tensor:
        tensor = torch.ones(2)
        watched.append(weakref.ref(tensor))
        return tensor

    def fail(*arguments: object) -> None:
        raise RuntimeError("cannot be lowered")

    monkeypatch.setattr(type(target), "synchronize", fail)
    late = attempt_on(target, make)

    def make_and_fail() -> None:
        tensor = make()
        raise RuntimeError(f"no kernel for {tensor.shape}")

    early = attempt(make_and_fail)
    assert not late.ok and not early.ok
    assert [reference() for reference in watched] == [None, None]
