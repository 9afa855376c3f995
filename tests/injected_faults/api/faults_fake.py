"""Faults for behaviours of fake tensors, which compute nothing that the general faults could change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor

from conformance.behaviours import lab as bench
from conformance.behaviours.lab import Lab
from conformance.framework.trees import tree_map
from conformance.properties.api.fake import operators
from tests.injected_faults.api.faults import NAMED


@contextlib.contextmanager
def fake_device_lost(lab: Lab) -> Iterator[None]:
    """Fake tensors that say they are on meta."""
    with mock.patch.object(FakeTensor, "device", property(lambda self: torch.device("meta"))):
        yield


NAMED["fake-devices"] = fake_device_lost
NAMED["functionalize-of-fake-tensors"] = fake_device_lost


@contextlib.contextmanager
def _mispredicted(lab: Lab) -> Iterator[None]:
    """Predictions of results are of another dtype."""
    predict: Any = operators.run_on_fake_tensors

    def wrong(leaf: Any) -> Any:
        return leaf.to(torch.complex128) if isinstance(leaf, torch.Tensor) else leaf

    def bent(call: Any, mode: Any, run: Any) -> Any:
        found = predict(call, mode, run)
        with mode:
            # The host's own predictions stay right.
            return found if bench.is_lab_working() else tree_map(wrong, found)

    with mock.patch.object(operators, "run_on_fake_tensors", bent):
        yield


for _part in range(1, 5):
    for _name in (
        f"open-sizes-of-operators-{_part}-of-8",
        f"open-sizes-of-operators-in-place-{_part}-of-4",
    ):
        NAMED[_name] = _mispredicted
