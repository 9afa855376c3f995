"""Behaviours of DataLoader worker processes while the device is in use: options and lifetimes."""

from __future__ import annotations

import itertools
import time
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    get_worker_info,
)
from torch.utils.data.datapipes.iter import IterableWrapper

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.dataloader.workers import TIMEOUT


class IndexSamples(Dataset):  # type: ignore[type-arg]
    """A dataset whose samples have four numbers: the index, the worker id (-1 in the main process), the
    number of samples read so far from this copy of the dataset, and the dataset's ``mark``, which
    ``worker_init_fn`` can set.
    """

    def __init__(self, length: int = 12) -> None:
        self.length = length
        self.reads = 0
        self.mark = 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        self.reads += 1
        info: Any = get_worker_info()
        return torch.tensor([index, -1 if info is None else info.id, self.reads, self.mark])


class _IndexLists(Dataset):  # type: ignore[type-arg]
    """A dataset whose index is a list of indices."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, indices: list[int]) -> torch.Tensor:
        return torch.tensor(indices) * 10


class _SlowSamples(Dataset):  # type: ignore[type-arg]
    """A dataset with one sample, which takes two seconds to read."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        time.sleep(2.0)  # longer than the loader's timeout of 0.2 seconds, also on a busy machine
        return index


class _FailingStream(IterableDataset):  # type: ignore[type-arg]
    """A stream that raises an error when a worker starts to read it."""

    def __iter__(self) -> Any:
        raise LookupError("the beginning")


class _ConvolutionSamples(Dataset):  # type: ignore[type-arg]
    """A dataset whose samples are computed with a convolution."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        weight = torch.ones(1, 1, 3, 3)
        return torch.nn.functional.conv2d(torch.full((1, 1, 8, 8), float(index)), weight).detach()


class _MiscountedStream(IterableDataset):  # type: ignore[type-arg]
    """A stream with more samples than its length reports."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        return iter(range(5))


def _batches_after_length_query(loader: Any) -> list[Any]:
    """Query the length of a loader, then return its batches."""
    len(loader)
    return list(loader)


def _first_sample_fails(loader: Any, kind: type[Exception], text: str) -> bool:
    """Return whether reading the first sample raises an error of type ``kind`` that contains ``text``.

    After the call, no reference keeps the loader's workers alive.
    """
    try:
        next(iter(loader))
    except kind as error:
        return text in str(error)
    return False


def _fail_at_start(worker: int) -> None:
    raise LookupError("the start")


def _mark_dataset(worker: int) -> None:
    """Set the mark of the worker's copy of the dataset. This function is passed as ``worker_init_fn``."""
    info: Any = get_worker_info()
    info.dataset.mark = 100 + worker


def _collate_with_shared_flag(batch: list[torch.Tensor]) -> torch.Tensor:
    """Return a tensor with two rows and one column per sample: the sample's index, and 1 if the collated
    batch is in shared memory, else 0.
    """
    joined: torch.Tensor = torch.utils.data.default_collate(batch)
    return torch.stack([joined[:, 0], torch.full((len(batch),), int(joined.is_shared()))])


def _worker_loader(data: Any, **options: Any) -> Any:
    """Return a DataLoader with two workers. ``options`` override its default arguments."""
    return DataLoader(data, **{"num_workers": 2, "timeout": TIMEOUT, **options})


def _sample_indices(loader: Any) -> list[int]:
    """Return the indices of a loader's samples, in order."""
    return [int(index) for batch in loader for index in batch.reshape(-1, 4)[:, 0]]


def _read_counts_by_worker(loader: Any) -> dict[int, list[int]]:
    """Return, by worker id, the numbers of samples read so far that the samples of one epoch report."""
    counts: dict[int, list[int]] = {}
    for batch in loader:
        for _, worker, count, _ in batch.tolist():
            counts.setdefault(worker, []).append(count)
    return counts


@behaviour("dataloader", level="training", must_detect=())
def orders_of_workers(lab: Lab) -> None:
    """Batches from workers are in the order of the sampler, for any batch size and prefetch factor. Workers
    load batches in turn, also if there are more workers than batches. With shuffling, each sample occurs
    once.
    """
    used = lab.integers(50)
    for case, options in (
        ("prefetched", {"batch_size": 2, "prefetch_factor": 3}),
        ("more workers than batches", {"batch_size": 12, "num_workers": 3}),
        ("with a batch_sampler", {"batch_sampler": BatchSampler(SequentialSampler(range(12)), 5, False)}),
    ):
        lab.same(case, _sample_indices(_worker_loader(IndexSamples(), **options)))
    turns = [int(batch[0, 1]) for batch in _worker_loader(IndexSamples(), batch_size=3)]
    with lab.parity("No page says which worker loads which batch"):
        lab.expect("workers in turn", turns, [0, 1, 0, 1])
    for case, options in (
        ("one by one", {}),
        ("in batches, prefetched", {"batch_size": 4, "prefetch_factor": 3}),
    ):
        generator = torch.Generator().manual_seed(3)
        loader = _worker_loader(IndexSamples(), shuffle=True, generator=generator, **options)
        first, second = _sample_indices(loader), _sample_indices(loader)
        lab.same(f"shuffled {case}", [first, second])
        lab.holds(f"each sample once, {case}", sorted(first) == sorted(second) == list(range(12)))
        repeated = _worker_loader(IndexSamples(), shuffle=True, generator=generator.manual_seed(3), **options)
        lab.holds(
            f"epochs repeat for a seed, {case}",
            [_sample_indices(repeated), _sample_indices(repeated)] == [first, second],
        )
    many = [int(x[0]) for x in itertools.islice(_worker_loader(IndexSamples(10**6), batch_size=None), 3)]
    lab.expect("the beginning of a long dataset", many, [0, 1, 2])
    sampler = BatchSampler(SequentialSampler(range(10)), 4, False)
    together = DataLoader(_IndexLists(), sampler=sampler, batch_size=None, num_workers=2, timeout=TIMEOUT)
    lab.same("places read together", list(together), host=True)
    lab.same("without workers", list(DataLoader(_IndexLists(), sampler=sampler, batch_size=None)), host=True)
    first_loader, second_loader = _worker_loader(IndexSamples(4)), _worker_loader(IndexSamples(4))
    lab.same(
        "two loaders at once",
        [[int(a[0, 0]), int(b[0, 0])] for a, b in zip(first_loader, second_loader, strict=True)],
    )
    growing = IndexSamples(4)
    grown = DataLoader(growing)
    before = len(list(grown))
    growing.length = 6
    with lab.parity("No page says that a loader follows a dataset whose length changes"):
        lab.expect("a dataset that grows", [before, len(list(grown)), len(grown)], [4, 6, 6])
    for case, workers in (("alone", 0), ("by workers", 2)):
        pipe = IterableWrapper(list(range(12))).shuffle().sharding_filter()
        parts = [int(x) for x in DataLoader(pipe, num_workers=workers, shuffle=True)]
        with lab.parity("No current page describes datapipes"):
            lab.holds(f"a datapipe shuffles all numbers, {case}", sorted(parts) == list(range(12)) != parts)
    lab.same("a sum on the device after the loaders", used + 1)


@behaviour("dataloader", level="training", must_detect=())
def lives_of_workers(lab: Lab) -> None:
    """Workers run ``worker_init_fn``. Persistent workers keep their dataset from epoch to epoch. Workers exit
    if their loader is deleted before the last batch. Errors at the start of a worker are raised in the main
    process.
    """
    used = lab.integers(50)
    marked = list(_worker_loader(IndexSamples(4), worker_init_fn=_mark_dataset))
    lab.holds(
        "each worker has the mark that worker_init_fn set",
        all(int(batch[0, 3]) == 100 + int(batch[0, 1]) for batch in marked),
    )
    lasting = _worker_loader(IndexSamples(4), persistent_workers=True)
    lasting_counts = [_read_counts_by_worker(lasting) for _ in range(2)]
    lab.holds(
        "persistent workers keep their dataset",
        all(
            count > max(lasting_counts[0][worker])
            for worker in lasting_counts[0]
            for count in lasting_counts[1].get(worker, ())
        ),
    )
    new_workers = _worker_loader(IndexSamples(4))
    new_counts = [_read_counts_by_worker(new_workers) for _ in range(2)]
    lab.holds(
        "new workers start with a new copy of the dataset",
        all(min(counts) == 1 for epoch in new_counts for counts in epoch.values()),
    )
    with lab.parity("No page says which worker loads which batch"):
        lab.same("workers and their counts", [lasting_counts, new_counts])
    for persistent in (False, True):
        loader = _worker_loader(IndexSamples(), persistent_workers=persistent)
        started = iter(loader)
        next(started)
        processes = list(getattr(started, "_workers", ()))
        del started, loader
        for process in processes:
            process.join(TIMEOUT)
        ended = processes and not any(process.is_alive() for process in processes)
        lab.holds(f"workers of a deleted loader exit (persistent: {persistent})", ended)
    for case, loader, kind, text in (
        (
            "an iterable dataset that fails at its start",
            _worker_loader(_FailingStream(), num_workers=1),
            LookupError,
            "the beginning",
        ),
        (
            "a worker_init_fn that fails",
            _worker_loader(IndexSamples(), num_workers=1, worker_init_fn=_fail_at_start),
            LookupError,
            "the start",
        ),
        (
            "a worker that takes too long",
            _worker_loader(_SlowSamples(), num_workers=1, timeout=0.2),
            RuntimeError,
            "timed out",
        ),
    ):
        with lab.parity(
            "No page says that an error of a worker is raised in the main process with its type and text"
        ):
            lab.expect(case, _first_sample_fails(loader, kind, text), True)
    lab.warns(
        "an iterable dataset that reports a wrong length",
        lambda: _batches_after_length_query(DataLoader(_MiscountedStream())),
        match="(?i)length",
    )
    lab.warns("many workers", lambda: DataLoader(IndexSamples(), num_workers=5000), match="(?i)worker")
    lab.same("a sum on the device after the loaders", used + 1)


@behaviour("dataloader", level="training", must_detect=())
def work_of_workers(lab: Lab) -> None:
    """While the device is in use, workers can run modules and can collate into shared memory. The requested
    multiprocessing context starts the workers.
    """
    used = lab.integers(50)
    module = torch.nn.Conv2d(1, 1, 3).to(lab.device)
    lab.same(
        "shape of a module's output on the device", module(torch.ones(1, 1, 8, 8, device=lab.device)).shape
    )
    lab.expect(
        "convolutions of workers",
        [int(x.max()) for x in _worker_loader(_ConvolutionSamples())],
        [0, 9, 18, 27],
    )
    shared = list(_worker_loader(IndexSamples(4), batch_size=2, collate_fn=_collate_with_shared_flag))
    with lab.parity("No page says that default_collate places batches of workers in shared memory"):
        lab.expect("batches in shared memory", [int(batch[1].min()) for batch in shared], [1, 1])
    lab.same(
        "started by fork", _sample_indices(_worker_loader(IndexSamples(4), multiprocessing_context="fork"))
    )
    context = torch.multiprocessing.get_context("fork")
    lab.same(
        "by a context", _sample_indices(_worker_loader(IndexSamples(4), multiprocessing_context=context))
    )
    lab.raises(
        "by a word",
        lambda: _worker_loader(IndexSamples(), multiprocessing_context="bad"),
        ValueError,
        type_is_documented=True,
    )
    lab.same("a sum on the device after the loaders", used + 1)
