"""Faults for behaviours of modules that the general faults do not affect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch
from torch.nn import init

from conformance.behaviours.lab import Lab
from tests.injected_faults.api.faults import NAMED


@contextlib.contextmanager
def _truncated_normal_not_truncated(lab: Lab) -> Iterator[None]:
    def draw(
        tensor: torch.Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0
    ) -> torch.Tensor:
        return init.normal_(tensor, mean, std)

    with mock.patch.object(init, "trunc_normal_", draw):
        yield


NAMED["truncated-normal-initialization"] = _truncated_normal_not_truncated
