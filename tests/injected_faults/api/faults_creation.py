"""Faults of factory functions: a wrong result in a single call."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from conformance.behaviours.lab import Lab
from tests.injected_faults.api.faults import NAMED


@contextlib.contextmanager
def _every_hundredth_call_wrong(lab: Lab) -> Iterator[None]:
    right, calls = torch.tril_indices, itertools.count(1)

    def factory(*args: Any, **kwargs: Any) -> torch.Tensor:
        created = right(*args, **kwargs)
        return created + 1 if next(calls) == 100 else created

    with mock.patch.object(torch, "tril_indices", factory):
        yield


NAMED["factories-many-times"] = _every_hundredth_call_wrong
