"""Behaviours of DataLoaders with worker processes while the device is in use."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

#: The timeout of the loaders, in seconds. If a worker returns no batch for this time, the loader raises an
#: error.
TIMEOUT = 60


class _HostSamples(Dataset):  # type: ignore[type-arg]
    """A dataset of tensors on the host. A sample has the index, the worker id, the number of workers, the
    dataset length, the worker's seed, and numbers from three random generators.
    """

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        info: Any = get_worker_info()
        draws = torch.tensor([float(torch.rand(())), random.random(), float(numpy.random.rand())])
        return (
            torch.tensor([index, info.id, info.num_workers, len(info.dataset)]),
            torch.tensor(info.seed % 2**31),
            draws,
        )


class _ShardedStream(IterableDataset):  # type: ignore[type-arg]
    """A stream of the numbers 0 to 8. Each worker returns a part of these numbers."""

    def __iter__(self) -> Any:
        info: Any = get_worker_info()
        return iter(torch.arange(info.id, 9, info.num_workers))


class _FailingSamples(Dataset):  # type: ignore[type-arg]
    """A dataset of four samples. Reading the third sample raises a KeyError."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 2:
            raise KeyError("the third")
        return index


def _two_worker_loader(data: Any, **options: Any) -> Any:
    """Return a DataLoader with two workers."""
    return DataLoader(data, num_workers=2, timeout=TIMEOUT, **options)


@behaviour("dataloader", level="training", must_detect=())
def workers_beside_a_device(lab: Lab) -> None:
    """While the device is in use, worker processes load samples on the host in order. Each worker has its own
    seed. Errors in workers are raised in the main process.
    """
    used = lab.integers(100)
    batches = list(
        _two_worker_loader(_HostSamples(), batch_size=2, generator=torch.Generator().manual_seed(4))
    )
    indices = torch.cat([batch[0] for batch in batches])
    lab.same("index, number of workers and dataset length of each sample", indices[:, [0, 2, 3]], host=True)
    with lab.parity("No page says which worker loads which batch"):
        lab.same("workers", indices[:, 1], host=True)
    repeated = list(
        _two_worker_loader(_HostSamples(), batch_size=2, generator=torch.Generator().manual_seed(4))
    )
    pairs = list(zip(batches, repeated, strict=True))
    lab.holds(
        "a seed repeats",
        all(torch.equal(a[1], b[1]) and torch.equal(a[2][:, 0], b[2][:, 0]) for a, b in pairs),
    )
    with lab.parity("The page promises only the seed of PyTorch in workers, not those of random and NumPy"):
        lab.holds("random and NumPy repeat", all(torch.equal(a[2], b[2]) for a, b in pairs))
    seeds = torch.cat([batch[1] for batch in batches])
    lab.holds("each worker has a different seed", len(set(seeds.tolist())) == 2)
    draws = torch.cat([batch[2] for batch in batches])
    lab.holds("PyTorch draws different numbers for all samples", len(set(draws[:, 0].tolist())) == len(draws))
    with lab.parity("The page says that seeds of other libraries may be duplicated in workers"):
        lab.holds(
            "all libraries draw different numbers for all samples",
            len(set(draws.flatten().tolist())) == draws.numel(),
        )
    lab.same("batches on the device", [batch[0][:, 0].to(lab.device) for batch in batches])
    lab.same("a sum on the device after the loaders", used + 1)
    lab.same(
        "parts of a stream",
        sorted(int(part) for part in _two_worker_loader(_ShardedStream(), batch_size=None)),
    )
    with lab.parity(
        "No page says that an error of a worker is raised in the main process with its type and text"
    ):
        lab.same(
            "which samples of a worker raise the error", _read_outcomes(_two_worker_loader(_FailingSamples()))
        )


def _read_outcomes(loader: Any) -> list[bool]:
    """Read a loader of ``_FailingSamples`` to its end, so that its workers exit. Return one flag per sample.

    The flag of a sample is False if the KeyError of ``_FailingSamples`` was raised, and True otherwise.
    """
    outcomes, samples = [], iter(loader)
    while True:
        try:
            next(samples)
            outcomes.append(True)
        except StopIteration:
            return outcomes
        except KeyError as error:
            outcomes.append("the third" not in str(error))
