"""Faults for behaviours of fake tensors, which compute nothing that the general faults could change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor

from conformance.behaviours.lab import Lab
from tests.planted.api.faults import NAMED


@contextlib.contextmanager
def fake_device_lost(lab: Lab) -> Iterator[None]:
    """Fake tensors that say they are on meta."""
    with mock.patch.object(FakeTensor, "device", property(lambda self: torch.device("meta"))):
        yield


NAMED["fake-devices"] = fake_device_lost
NAMED["functionalize-of-fake-tensors"] = fake_device_lost
