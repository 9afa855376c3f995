"""``doctor.registration_checks`` requires collectives only of targets with mode distributed."""

from __future__ import annotations

import types

import pytest
import torch

from conformance.doctor import registration_checks
from conformance.target import file as target_file


def test_collectives_are_required_only_with_mode_distributed() -> None:
    for modes, expected_ok in ((["eager"], None), (["eager", "distributed"], True)):
        target = target_file.load("cpu").target("eager")
        object.__setattr__(target, "modes", modes)
        (fact,) = (
            fact
            for fact in registration_checks.collect_registration_facts(target)
            if fact.subject == "c10d kernels"
        )
        assert fact.ok is expected_ok


@pytest.mark.parametrize(
    ("device", "made", "expected"),
    [
        ("ocl", "ocl", True),
        ("ocl", "ocl:0", False),
        ("ocl:0", "ocl", False),
        ("cpu", "cpu", False),
        ("ocl", None, False),
    ],
)
def test_new_tensors_whose_device_has_no_index_are_found(
    monkeypatch: pytest.MonkeyPatch, device: str, made: str | None, expected: bool
) -> None:
    def empty(*sizes: int, device: str) -> types.SimpleNamespace:
        if made is None:
            raise RuntimeError("no memory")
        return types.SimpleNamespace(device=made)

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch, "device", lambda name: types.SimpleNamespace(type=name))
    assert registration_checks.new_tensors_lack_index(device) is expected
