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
def _one_worker_instead_of_two(lab: Lab) -> Iterator[None]:
    """Run loaders with one worker instead of two."""
    whole = workers._two_worker_loader

    def make_loader(data: Any, **options: Any) -> Any:
        created = whole(data, **options)
        created.num_workers = 1
        return created

    with mock.patch.object(workers, "_two_worker_loader", make_loader):
        yield


@contextlib.contextmanager
def _samples_in_reverse_order(lab: Lab) -> Iterator[None]:
    """Make loaders with workers return their samples in reverse order."""
    whole = worker_options._sample_indices

    with mock.patch.object(worker_options, "_sample_indices", lambda make_loader: whole(make_loader)[::-1]):
        yield


@contextlib.contextmanager
def _worker_init_ignored(lab: Lab) -> Iterator[None]:
    """Make loaders ignore ``worker_init_fn``."""
    whole = worker_options._worker_loader

    def make_loader(data: Any, **options: Any) -> Any:
        options.pop("worker_init_fn", None)
        return whole(data, **options)

    with mock.patch.object(worker_options, "_worker_loader", make_loader):
        yield


NAMED["orders-of-workers"] = _samples_in_reverse_order
NAMED["lives-of-workers"] = _worker_init_ignored
NAMED["work-of-workers"] = _samples_in_reverse_order
NAMED["pinned-batches"] = _wrong_non_blocking_copies
NAMED["workers-beside-a-device"] = _one_worker_instead_of_two
