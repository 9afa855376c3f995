"""Faults for behaviours of sparse tensors that the general faults do not affect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch

from conformance.behaviours.lab import Lab
from tests.injected_faults.api.faults import NAMED


@contextlib.contextmanager
def _coalesce_retains_inputs(lab: Lab) -> Iterator[None]:
    """Make Tensor.coalesce keep a reference to every tensor on which it is called."""
    names: list[torch.Tensor] = []
    coalesce = torch.Tensor.coalesce

    def coalesce_and_retain(tensor: torch.Tensor) -> torch.Tensor:
        names.append(tensor)
        return coalesce(tensor)

    with mock.patch.object(torch.Tensor, "coalesce", coalesce_and_retain):
        yield


NAMED["coalesced-tensors-are-freed"] = _coalesce_retains_inputs
