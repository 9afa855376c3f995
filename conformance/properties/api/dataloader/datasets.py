"""Behaviours of datasets of tensors on the device, of samplers, of collated batches and of pinned batches."""

from __future__ import annotations

import collections
import tempfile
from typing import Any

import numpy
import torch
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("dataloader", level="core", must_detect=("value", "error"))
def datasets_of_tensors(lab: Lab) -> None:
    """Datasets of tensors return samples on the device of the tensors, by index and by lists of indices. The
    datasets report the correct length.
    """
    x, y = lab.integers(6, 2), lab.integers(6)
    pairs = TensorDataset(x, y)
    lab.same("length and samples", (len(pairs), [pairs[index] for index in range(6)]))
    lab.same("a slice", pairs[1:4])
    lab.same("one tensor", (len(TensorDataset(y)), TensorDataset(y)[2]))
    lab.same("many tensors", TensorDataset(x, y, x * 2, y + 1)[5])
    lab.raises("sizes that differ", lambda: TensorDataset(x, y[:5]), AssertionError)
    stacked = StackDataset(pairs, y, [1, 2, 3, 4, 5, 6])  # type: ignore[arg-type]
    lab.same("side by side", (len(stacked), stacked[3]))
    named = StackDataset(image=x, label=[1, 2, 3, 4, 5, 6])  # type: ignore[arg-type]
    lab.same("by names", (len(named), named[3]))
    lab.same("several at once", StackDataset(TensorDataset(x), y).__getitems__([0, 2, 4]))  # type: ignore[arg-type]
    with lab.parity("No page says that a StackDataset without datasets is refused"):
        lab.raises("neither of them", lambda: StackDataset(), ValueError)
    with lab.parity("No page says that positional and named datasets together are refused"):
        lab.raises("both kinds", lambda: StackDataset(x, image=y), ValueError)  # type: ignore[arg-type]
    with lab.parity("No page says that datasets of different sizes are refused"):
        lab.raises("StackDataset of datasets of different sizes", lambda: StackDataset(x, y[:5]), ValueError)  # type: ignore[arg-type]
    joined: Any = ConcatDataset([TensorDataset(y), TensorDataset(y[:0]), TensorDataset(y[:2] + 10)])
    lab.same("in a row", (len(joined), joined[0], joined[6], joined[-1]))
    with lab.parity("No page says that datasets can be added with +"):
        lab.same("added", len(TensorDataset(y) + TensorDataset(y)))
    with lab.parity("No page says which error an index beyond the end raises"):
        lab.raises("beyond the end", lambda: joined[8], IndexError)
    with lab.parity("No page says which error a negative index beyond the start raises"):
        lab.raises("a negative index before the start", lambda: joined[-9], ValueError, IndexError)
    part = Subset(pairs, [4, 1, 3])
    with lab.parity("No page says that ConcatDataset refuses an iterable dataset"):
        lab.raises(
            "ConcatDataset of an iterable dataset",
            lambda: ConcatDataset([pairs, _RowStream(x)]),
            AssertionError,
        )
    with lab.parity("No page says which error an index beyond the end raises"):
        lab.raises("one index beyond the end", lambda: StackDataset(x, y).__getitems__([0, 6]), IndexError)  # type: ignore[arg-type]
    lossy: Any = StackDataset(_RowsWithoutFirstOfBatch(x), y)  # type: ignore[arg-type]
    with lab.parity("No page says that a wrong number of samples from __getitems__ is refused"):
        lab.raises(
            "a dataset that returns too few samples for its indices",
            lambda: lossy.__getitems__([0, 2, 4]),
            ValueError,
        )
    lab.same("a part", (len(part), part[0], part[[0, 2]]))
    lab.same("a subset of a subset", Subset(part, [2, 0])[1])


@behaviour("dataloader", must_detect=("value", "error"))
def splits_of_datasets(lab: Lab) -> None:
    """``random_split`` divides a dataset into parts that do not overlap. The sizes of the parts are passed as
    lengths or as fractions. The same generator seed gives the same split.
    """
    data = TensorDataset(torch.arange(15, device=lab.device))
    for lengths in ([5, 10], [1, 2, 12], [0.2, 0.8], [0.5, 0.5], [0.33, 0.33, 0.34]):
        parts = random_split(data, lengths, generator=torch.Generator().manual_seed(3))
        repeated = random_split(data, lengths, generator=torch.Generator().manual_seed(3))
        lab.same(f"sizes of {lengths}", [len(part) for part in parts])
        lab.same(f"samples of {lengths}", [[part[i][0] for i in range(len(part))] for part in parts])
        lab.holds(
            f"each sample is in one part, {lengths}",
            sorted(i for part in parts for i in part.indices) == list(range(15)),
        )
        lab.holds(
            f"an equal seed gives an equal split, {lengths}",
            [part.indices for part in parts] == [part.indices for part in repeated],
        )
        with lab.parity("No page says that the indices are Python integers"):
            lab.holds(
                f"indices are numbers, {lengths}", all(type(i) is int for part in parts for i in part.indices)
            )
    sliced = random_split(data, [5, 10], generator=torch.Generator().manual_seed(3))[1]
    lab.same("samples 2 to 5 of the second part", [sliced[i][0] for i in range(2, 6)])
    nested = random_split(sliced, [4, 6], generator=torch.Generator().manual_seed(4))[0]
    lab.same("a subset of a subset", [nested[i][0] for i in range(4)])
    with lab.parity("No page says that lengths with a wrong sum are refused"):
        lab.raises("lengths that do not add up", lambda: random_split(data, [5, 5]), ValueError)
    with lab.parity("No page says that fractions with a sum above one are refused"):
        lab.raises("fractions above one", lambda: random_split(data, [0.5, 0.7]), ValueError)
    with lab.parity("No page says that a negative fraction is refused"):
        lab.raises("a negative fraction", lambda: random_split(data, [1.5, -0.5]), ValueError)
    lab.warns("a part of nothing", lambda: random_split(data, [0.0, 1.0]), match="(?i)length 0|empty")
    lab.same("sum", data.tensors[0].sum())


Point = collections.namedtuple("Point", ["x", "y"])


@behaviour("dataloader", level="core", must_detect=("value", "error"))
def collating_samples(lab: Lab) -> None:
    """``default_collate`` stacks tensors on their device and converts numbers and arrays to tensors. The
    structure of the samples is preserved, and values of other types are not converted.
    """
    first, second = lab.integers(2, 3), lab.integers(2, 3)
    lab.same("tensors", default_collate([first, second]))
    lab.same("tuples", default_collate([(first, 1), (second, 2)])[0])
    lab.same("numbers", default_collate([1, 2, 3]), host=True)
    lab.same("floats", default_collate([1.5, 2.5]), host=True)
    lab.same("booleans", default_collate([True, False]), host=True)
    lab.same("words", default_collate(["a", "b"]))
    lab.same("dicts", default_collate([{"a": first, "b": "x"}, {"a": second, "b": "y"}]))
    lab.same("arrays", default_collate([numpy.ones(2), numpy.zeros(2)]), host=True)
    lab.same("numbers of NumPy", default_collate([numpy.float32(1), numpy.float32(2)]), host=True)
    points = default_collate([Point(first, 1), Point(second, 2)])
    lab.holds("a named tuple keeps its type", type(points) is Point)
    lab.same("and hold batches", points.x)
    with lab.parity("The page promises a mapping, not the type of the sample's mapping"):
        lab.holds(
            "an ordered dict keeps its type",
            type(default_collate([collections.OrderedDict(a=1)])) is collections.OrderedDict,
        )
    lab.same("lists", default_collate([[first, second], [second, first]])[1])
    converted = default_convert({"a": numpy.ones(2), "b": [first, "word"], "c": Point(numpy.zeros(1), 2)})
    lab.same("converted", (converted["b"], type(converted["c"]).__name__))
    lab.same("arrays become tensors", converted["a"], host=True)
    owned = _UserDefinedMapping({"a": first, "b": 2})
    with lab.parity("The page promises a mapping, not the type of the sample's mapping"):
        lab.same(
            "mappings keep their type", [type(default_convert(owned)).__name__, default_convert(owned)["a"]]
        )
        lab.same("default_collate of mappings", [type(default_collate([owned, owned])).__name__])
    with lab.parity(
        "No page says what default_convert returns for a sequence that cannot be constructed from its "
        "elements"
    ):
        lab.same(
            "a sequence that cannot be constructed from its elements",
            [default_convert(range(3)), type(default_convert(range(3)))],
        )
    lab.same("become lists", [default_collate([range(2), range(2)])], host=True)
    with tempfile.TemporaryFile() as file:
        mapped = numpy.memmap(file, dtype=numpy.int64, mode="w+", shape=(2, 3))
        mapped[:] = numpy.arange(6).reshape(2, 3)
        lab.expect("arrays in files", default_collate(list(mapped)), [[0, 1, 2], [3, 4, 5]], host=True)
        del mapped
    with lab.parity("No page says that samples of different lengths are refused"):
        lab.raises("samples of different lengths", lambda: default_collate([[1, 2], [3]]), RuntimeError)
    with lab.parity("The page does not say that tensors of different shapes are refused"):
        lab.raises(
            "tensors of different shapes", lambda: default_collate([first, lab.integers(5)]), RuntimeError
        )
    with lab.parity("No page says that arrays of strings are refused"):
        lab.raises(
            "arrays of words", lambda: default_collate([numpy.array(["a"]), numpy.array(["b"])]), TypeError
        )
    with lab.parity("No page says that arrays of objects are refused"):
        lab.raises("arrays of objects", lambda: default_collate([numpy.array([object()])]), TypeError)
    with lab.parity("No page says that samples of other types are refused"):
        lab.raises("None", lambda: default_collate([None, None]), TypeError)


class _UserDefinedMapping(collections.UserDict[str, Any]):
    """A mapping of a user-defined type."""


class _TensorRows(Dataset):  # type: ignore[type-arg]
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.tensor[index]


class _RowsWithGetItems(_TensorRows):
    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return list(self.tensor[indices])


class _RowsWithoutFirstOfBatch(_TensorRows):
    """A dataset whose ``__getitems__`` omits the first of the requested samples."""

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return list(self.tensor[indices[1:]])


class _RowStream(IterableDataset):  # type: ignore[type-arg]
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __iter__(self) -> Any:
        return iter(self.tensor)


@behaviour("dataloader", level="core", must_detect=("value", "error"))
def loading_batches(lab: Lab) -> None:
    """A loader returns batches in the order of its sampler, on the device of the samples. An incomplete last
    batch is returned, unless ``drop_last`` is set.
    """
    data = _TensorRows(lab.integers(10, 2))
    lab.same("one by one", list(DataLoader(data)))
    lab.same("batches", list(DataLoader(data, batch_size=4)))
    lab.same("without the rest", list(DataLoader(data, batch_size=4, drop_last=True)))
    lab.same("no batches", list(DataLoader(data, batch_size=None)))
    lab.same(
        "lengths",
        [
            len(DataLoader(data, batch_size=size, drop_last=drop))
            for size in (1, 3, 4, 20)
            for drop in (True, False)
        ],
    )
    lab.same("several samples at once", list(DataLoader(_RowsWithGetItems(data.tensor), batch_size=5)))
    lab.same(
        "batches from a collate_fn",
        list(DataLoader(data, batch_size=5, collate_fn=lambda batch: torch.stack(batch).sum(0))),
    )
    lab.same("by a sampler", list(DataLoader(data, batch_size=2, sampler=[7, 1, 3])))
    lab.same("batches from a batch_sampler", list(DataLoader(data, batch_sampler=[[0, 1], [9], [2, 3, 4]])))
    shuffled = [
        list(DataLoader(data, batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(5)))
        for _ in range(2)
    ]
    lab.same("shuffled", shuffled[0])
    lab.holds(
        "an equal seed gives an equal order", all(torch.equal(a, b) for a, b in zip(*shuffled, strict=True))
    )
    loader = DataLoader(data, batch_size=10, shuffle=True, generator=torch.Generator().manual_seed(5))
    first, second = next(iter(loader)), next(iter(loader))
    lab.holds("two epochs have different orders", not torch.equal(first, second))
    lab.holds("two epochs have the same samples", torch.equal(first.sum(0), second.sum(0)))
    lab.same("a stream", list(DataLoader(_RowStream(data.tensor), batch_size=4)))
    lab.same(
        "streams in a row",
        list(
            DataLoader(ChainDataset([_RowStream(data.tensor[:3]), _RowStream(data.tensor[5:])]), batch_size=4)
        ),
    )
    lab.same("pairs", list(DataLoader(TensorDataset(data.tensor, data.tensor[:, 0]), batch_size=6)))
    lab.same(
        "dicts",
        next(iter(DataLoader(StackDataset(a=data.tensor, b=list(range(10))), batch_size=5)))["a"],  # type: ignore[arg-type]
    )
    forbidden: dict[str, dict[str, Any]] = {
        "a negative timeout without workers": {"timeout": -1},
        "a sampler and shuffling": {"sampler": [0], "shuffle": True},
        "a batch_sampler and a batch size": {"batch_sampler": [[0]], "batch_size": 3},
    }
    for case, options in forbidden.items():
        lab.raises(case, lambda: DataLoader(data, **options), ValueError)
    pointless: dict[str, dict[str, Any]] = {
        "a negative number of workers": {"num_workers": -1},
        "dropping without batches": {"batch_size": None, "drop_last": True},
        "prefetching without workers": {"prefetch_factor": 2},
        "a context without workers": {"multiprocessing_context": "fork"},
        "persistence without workers": {"persistent_workers": True},
    }
    for case, options in pointless.items():
        with lab.parity("No page says that these arguments are refused"):
            lab.raises(case, lambda: DataLoader(data, **options), ValueError)
    with lab.parity("The page says that samplers do not fit iterable datasets, and does not mention shuffle"):
        lab.raises(
            "an iterable dataset with shuffle",
            lambda: DataLoader(_RowStream(data.tensor), shuffle=True),
            ValueError,
        )
    lab.raises(
        "an iterable dataset with a sampler",
        lambda: DataLoader(_RowStream(data.tensor), sampler=[0]),
        ValueError,
    )
    for name in ("batch_size", "sampler", "drop_last", "dataset"):
        with lab.parity("No page says that attributes of a loader cannot be set"):
            lab.raises(f"setting {name}", lambda: setattr(loader, name, 1), ValueError)


@behaviour("dataloader", must_detect=("value", "error"))
def samplers(lab: Lab) -> None:
    """Samplers return each index once, or draw indices with replacement, by weight or in batches. The same
    generator seed gives the same indices.
    """
    data = _TensorRows(lab.integers(8, 2))

    def seeded_generator() -> torch.Generator:
        return torch.Generator().manual_seed(9)

    lab.same("in order", list(SequentialSampler(data)))
    for case, make in (
        ("shuffled", lambda: RandomSampler(data, generator=seeded_generator())),
        (
            "with replacement",
            lambda: RandomSampler(data, replacement=True, num_samples=20, generator=seeded_generator()),
        ),
        ("more than there are", lambda: RandomSampler(data, num_samples=20, generator=seeded_generator())),
        ("a part", lambda: SubsetRandomSampler([1, 5, 6], generator=seeded_generator())),
        ("weighed", lambda: WeightedRandomSampler([0.0, 1.0, 3.0, 0.0], 30, generator=seeded_generator())),
    ):
        lab.same(case, (len(make()), list(make())))
    lab.holds("each index once", sorted(RandomSampler(data)) == list(range(8)))
    lab.holds("weights of zero never", set(WeightedRandomSampler([0.0, 1.0, 3.0], 100)) <= {1, 2})
    lab.same(
        "batches",
        (
            list(BatchSampler(SequentialSampler(data), 3, False)),
            list(BatchSampler(SequentialSampler(data), 3, True)),
        ),
    )
    lab.same(
        "lengths of batches",
        [len(BatchSampler(range(8), size, drop)) for size in (3, 4) for drop in (True, False)],
    )
    lab.same(
        "loaded",
        list(DataLoader(data, sampler=RandomSampler(data, generator=seeded_generator()), batch_size=4)),
    )
    with lab.parity("No page says that zero samples are refused"):
        lab.raises("no samples", lambda: RandomSampler(data, num_samples=0), ValueError)
    with lab.parity("No page says that a replacement that is not a bool is refused"):
        lab.raises("a replacement that is not a bool", lambda: RandomSampler(data, replacement=1), TypeError)  # type: ignore[arg-type]
    with lab.parity("No page says that a batch size of zero is refused"):
        lab.raises("a size of zero", lambda: BatchSampler(range(8), 0, False), ValueError)
    with lab.parity("No page says that a drop_last that is not a bool is refused"):
        lab.raises("a drop_last that is not a bool", lambda: BatchSampler(range(8), 2, 1), ValueError)  # type: ignore[arg-type]


@behaviour("dataloader", capabilities=("pinned_memory",), must_detect=())
def pinned_batches(lab: Lab) -> None:
    """With ``pin_memory``, host batches are page-locked, also inside containers. If a batch has a
    ``pin_memory`` method, this method is called. Pinned batches can be copied to the device.
    """
    host = torch.arange(12.0).view(6, 2)
    expected = lab.on_target and not lab.target.is_cpu

    def is_pinned_if_expected(tensor: torch.Tensor) -> bool:
        return tensor.is_pinned() or not expected

    for case, data, pick in (
        ("tensors", _TensorRows(host), lambda batch: batch),
        ("pairs", TensorDataset(host, host[:, 0]), lambda batch: batch[1]),
        ("dicts", StackDataset(a=host, b=list("abcdef")), lambda batch: batch["a"]),  # type: ignore[arg-type]
    ):
        batches = [pick(batch) for batch in DataLoader(data, batch_size=3, pin_memory=expected)]
        lab.holds(f"{case} are pinned", all(is_pinned_if_expected(batch) for batch in batches))
        lab.same(f"values of {case}", batches, host=True)
        lab.same(
            f"{case} on the device", [batch.to(lab.device, non_blocking=True).clone() for batch in batches]
        )
    batches = list(
        DataLoader(_TensorRows(host), batch_size=3, pin_memory=expected, collate_fn=_PinnableBatch)
    )
    lab.holds(
        "batches are pinned by their own pin_memory method",
        all(batch.was_pinned or not expected for batch in batches),
    )
    options: Any = {"batch_size": 3, "pin_memory": expected, "collate_fn": _PinnableBatch}
    batches = list(DataLoader(_TensorRows(host), num_workers=1, timeout=60, **options))
    lab.holds("batches of a worker are pinned", all(batch.was_pinned or not expected for batch in batches))
    unpinned = next(iter(DataLoader(_TensorRows(host), batch_size=3)))
    with lab.parity("No page says that batches are not pinned if pin_memory is False"):
        lab.holds("batches are not pinned without pin_memory", not unpinned.is_pinned())


class _PinnableBatch:
    """A batch with its own ``pin_memory`` method."""

    def __init__(self, samples: list[torch.Tensor]) -> None:
        self.value = torch.stack(samples)
        self.was_pinned = False

    def pin_memory(self) -> _PinnableBatch:
        self.was_pinned = True
        self.value = self.value.pin_memory()
        return self
