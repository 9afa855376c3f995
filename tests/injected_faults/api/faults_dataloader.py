"""Faults of data loaders on the device side."""

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
def _wrong_non_blocking_copies(lab: Lab) -> Iterator[None]:
    """Add one to each copy with ``non_blocking=True``."""
    whole: Any = torch.Tensor.to

    def to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        copy: torch.Tensor = whole(tensor, *args, **kwargs)
        non_blocking = kwargs.get("non_blocking")
        return copy + 1 if non_blocking else copy

    with mock.patch.object(torch.Tensor, "to", to):
        yield


@contextlib.contextmanager
def _one_worker(lab: Lab) -> Iterator[None]:
    """Run loaders with one worker instead of two."""
    whole = workers._two_worker_loader

    def loader(data: Any, **options: Any) -> Any:
        created = whole(data, **options)
        created.num_workers = 1
        return created

    with mock.patch.object(workers, "_two_worker_loader", loader):
        yield


@contextlib.contextmanager
def _reversed_samples(lab: Lab) -> Iterator[None]:
    """Make loaders with workers return their samples in reverse order."""
    whole = worker_options._sample_indices

    with mock.patch.object(worker_options, "_sample_indices", lambda loader: whole(loader)[::-1]):
        yield


@contextlib.contextmanager
def _without_worker_init(lab: Lab) -> Iterator[None]:
    """Make loaders ignore ``worker_init_fn``."""
    whole = worker_options._worker_loader

    def loader(data: Any, **options: Any) -> Any:
        options.pop("worker_init_fn", None)
        return whole(data, **options)

    with mock.patch.object(worker_options, "_worker_loader", loader):
        yield


NAMED["orders-of-workers"] = _reversed_samples
NAMED["lives-of-workers"] = _without_worker_init
NAMED["work-of-workers"] = _reversed_samples
NAMED["pinned-batches"] = _wrong_non_blocking_copies
NAMED["workers-beside-a-device"] = _one_worker
