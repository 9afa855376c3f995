"""Faults of loaders on the device's side."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from conformance.behaviours.lab import Lab
from conformance.properties.api.dataloader import worker_options, workers
from tests.injected_faults.api.faults import NAMED


@contextlib.contextmanager
def _wrong_copies(lab: Lab) -> Iterator[None]:
    """Copies to the device are off by one."""
    whole: Any = torch.Tensor.to

    def to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        found: torch.Tensor = whole(tensor, *args, **kwargs)
        asked = kwargs.get("non_blocking")
        return found + 1 if asked else found

    with mock.patch.object(torch.Tensor, "to", to):
        yield


@contextlib.contextmanager
def _one_worker(lab: Lab) -> Iterator[None]:
    """Loaders run with one worker instead of two."""
    whole = workers._loader

    def loader(data: Any, **options: Any) -> Any:
        made = whole(data, **options)
        made.num_workers = 1
        return made

    with mock.patch.object(workers, "_loader", loader):
        yield


@contextlib.contextmanager
def _turned_around(lab: Lab) -> Iterator[None]:
    """Loaders with workers give their samples backwards."""
    whole = worker_options._sample_indices

    with mock.patch.object(worker_options, "_sample_indices", lambda loader: whole(loader)[::-1]):
        yield


@contextlib.contextmanager
def _forgetful(lab: Lab) -> Iterator[None]:
    """Workers do not run their initial function."""
    whole = worker_options._loader

    def loader(data: Any, **options: Any) -> Any:
        options.pop("worker_init_fn", None)
        return whole(data, **options)

    with mock.patch.object(worker_options, "_loader", loader):
        yield


NAMED["orders-of-workers"] = _turned_around
NAMED["lives-of-workers"] = _forgetful
NAMED["work-of-workers"] = _turned_around
NAMED["pinned-batches"] = _wrong_copies
NAMED["workers-beside-a-device"] = _one_worker
