"""Options and ends of loaders with worker processes beside a device that is in use."""

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


class Places(Dataset):  # type: ignore[type-arg]
    """Samples that are their places, and how often this copy of the dataset was asked."""

    def __init__(self, length: int = 12) -> None:
        self.length = length
        self.asked = 0
        self.mark = 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: int) -> torch.Tensor:
        self.asked += 1
        info: Any = get_worker_info()
        return torch.tensor([place, -1 if info is None else info.id, self.asked, self.mark])


class _Together(Dataset):  # type: ignore[type-arg]
    """Samples that are read by lists of places."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, places: list[int]) -> torch.Tensor:
        return torch.tensor(places) * 10


class _Slow(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 1

    def __getitem__(self, place: int) -> int:
        time.sleep(2.0)  # so long that a busy machine reaches the time limit first
        return place


class _NeverMade(IterableDataset):  # type: ignore[type-arg]
    """A stream that fails when a worker begins with it."""

    def __iter__(self) -> Any:
        raise LookupError("the beginning")


class _Convolved(Dataset):  # type: ignore[type-arg]
    """Samples that a worker computes with a module."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> torch.Tensor:
        weight = torch.ones(1, 1, 3, 3)
        return torch.nn.functional.conv2d(torch.full((1, 1, 8, 8), float(place)), weight).detach()


class _Short(IterableDataset):  # type: ignore[type-arg]
    """A stream that is longer than it says."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        return iter(range(5))


def _measured(loader: Any) -> list[Any]:
    """Ask a loader for its length, then read it."""
    len(loader)
    return list(loader)


def _failure(loader: Any, kind: type[Exception], text: str) -> bool:
    """Return whether the first sample is such an error; nothing holds the loader's workers afterwards."""
    try:
        next(iter(loader))
    except kind as error:
        return text in str(error)
    return False


def _fails(worker: int) -> None:
    raise LookupError("the start")


def _marked(worker: int) -> None:
    info: Any = get_worker_info()
    info.dataset.mark = 100 + worker


def _shared(batch: list[torch.Tensor]) -> torch.Tensor:
    joined: torch.Tensor = torch.utils.data.default_collate(batch)
    return torch.stack([joined[:, 0], torch.full((len(batch),), int(joined.is_shared()))])


def _loader(data: Any, **options: Any) -> Any:
    return DataLoader(data, **{"num_workers": 2, "timeout": TIMEOUT, **options})


def _read(loader: Any) -> list[int]:
    """The places of a loader's samples, in order."""
    return [int(place) for batch in loader for place in batch.reshape(-1, 4)[:, 0]]


@behaviour("dataloader", level="training", sees=())
def orders_of_workers(lab: Lab) -> None:
    """Workers keep the order of the sampler, for any batch size and prefetching, and take batches in turn,
    also if there are more workers than batches; shuffled samples come once each.
    """
    used = lab.integers(50)
    for word, options in (
        ("prefetched", {"batch_size": 2, "prefetch_factor": 3}),
        ("more workers than batches", {"batch_size": 12, "num_workers": 3}),
        ("in batches of a sampler", {"batch_sampler": BatchSampler(SequentialSampler(range(12)), 5, False)}),
    ):
        lab.same(word, _read(_loader(Places(), **options)))
    turns = [int(batch[0, 1]) for batch in _loader(Places(), batch_size=3)]
    lab.expect("workers in turn", turns, [0, 1, 0, 1])
    for word, options in (
        ("one by one", {}),
        ("in batches, prefetched", {"batch_size": 4, "prefetch_factor": 3}),
    ):
        generator = torch.Generator().manual_seed(3)
        loader = _loader(Places(), shuffle=True, generator=generator, **options)
        first, second = _read(loader), _read(loader)
        lab.same(f"shuffled {word}", [first, second])
        lab.holds(f"each sample once, {word}", sorted(first) == sorted(second) == list(range(12)))
        again = _loader(Places(), shuffle=True, generator=generator.manual_seed(3), **options)
        lab.holds(f"epochs repeat for a seed, {word}", [_read(again), _read(again)] == [first, second])
    many = [int(x[0]) for x in itertools.islice(_loader(Places(10**6), batch_size=None), 3)]
    lab.expect("the beginning of a long dataset", many, [0, 1, 2])
    sampler = BatchSampler(SequentialSampler(range(10)), 4, False)
    together = DataLoader(_Together(), sampler=sampler, batch_size=None, num_workers=2, timeout=TIMEOUT)
    lab.same("places read together", list(together), host=True)
    lab.same("without workers", list(DataLoader(_Together(), sampler=sampler, batch_size=None)), host=True)
    left, right = _loader(Places(4)), _loader(Places(4))
    lab.same("two loaders at once", [[int(a[0, 0]), int(b[0, 0])] for a, b in zip(left, right, strict=True)])
    growing = Places(4)
    grown = DataLoader(growing)
    before = len(list(grown))
    growing.length = 6
    lab.expect("a dataset that grows", [before, len(list(grown)), len(grown)], [4, 6, 6])
    for word, workers in (("alone", 0), ("by workers", 2)):
        pipe = IterableWrapper(list(range(12))).shuffle().sharding_filter()
        parts = [int(x) for x in DataLoader(pipe, num_workers=workers, shuffle=True)]
        lab.holds(f"a pipe that shuffles, {word}", sorted(parts) == list(range(12)) != parts)
    lab.same("the device's own tensor", used + 1)


@behaviour("dataloader", level="training", sees=())
def lives_of_workers(lab: Lab) -> None:
    """Workers run their initial function, keep their dataset if they persist, may be left early, and hand on
    the errors of their beginning.
    """
    used = lab.integers(50)
    marks = [int(batch[0, 3]) for batch in _loader(Places(4), worker_init_fn=_marked)]
    lab.expect("marks of the initial function", marks, [100, 101, 100, 101])
    lasting = _loader(Places(4), persistent_workers=True)
    asked = [[int(batch[0, 2]) for batch in lasting] for _ in range(2)]
    lab.expect("persistent workers keep their dataset", asked, [[1, 1, 2, 2], [3, 3, 4, 4]])
    fresh = _loader(Places(4))
    asked = [[int(batch[0, 2]) for batch in fresh] for _ in range(2)]
    lab.expect("others begin anew", asked, [[1, 1, 2, 2]] * 2)
    for persistent in (False, True):
        loader = _loader(Places(), persistent_workers=persistent)
        started = iter(loader)
        next(started)
        processes = list(getattr(started, "_workers", ()))
        del started, loader
        for process in processes:
            process.join(TIMEOUT)
        ended = processes and not any(process.is_alive() for process in processes)
        lab.holds(f"workers that are left end (persistent: {persistent})", ended)
    for word, loader, kind, text in (
        ("a stream that fails at once", _loader(_NeverMade(), num_workers=1), LookupError, "the beginning"),
        (
            "an initial function that fails",
            _loader(Places(), num_workers=1, worker_init_fn=_fails),
            LookupError,
            "the start",
        ),
        (
            "a worker that takes too long",
            _loader(_Slow(), num_workers=1, timeout=0.2),
            RuntimeError,
            "timed out",
        ),
    ):
        lab.expect(word, _failure(loader, kind, text), True)
    lab.warns("a stream of a wrong length", lambda: _measured(DataLoader(_Short())), match="(?i)length")
    lab.warns("many workers", lambda: DataLoader(Places(), num_workers=5000), match="(?i)worker")
    lab.same("the device's own tensor", used + 1)


@behaviour("dataloader", level="training", sees=())
def work_of_workers(lab: Lab) -> None:
    """Workers compute with modules, collate into shared memory, and are started by the context that is asked
    for, while the device is in use.
    """
    used = lab.integers(50)
    module = torch.nn.Conv2d(1, 1, 3).to(lab.device)
    lab.same("shape of the device's module", module(torch.ones(1, 1, 8, 8, device=lab.device)).shape)
    lab.expect("convolutions of workers", [int(x.max()) for x in _loader(_Convolved())], [0, 9, 18, 27])
    shared = list(_loader(Places(4), batch_size=2, collate_fn=_shared))
    lab.expect("batches in shared memory", [int(batch[1].min()) for batch in shared], [1, 1])
    lab.same("started by fork", _read(_loader(Places(4), multiprocessing_context="fork")))
    context = torch.multiprocessing.get_context("fork")
    lab.same("by a context", _read(_loader(Places(4), multiprocessing_context=context)))
    lab.raises("by a word", lambda: _loader(Places(), multiprocessing_context="bad"), ValueError)
    lab.same("the device's own tensor", used + 1)
