"""Samples: the inputs on which properties are checked.

They are made on the CPU from a seed of (operator, dtype) only, once per process and operator, and shared by
all properties. The shared ones are never handed to an operator: ``copies.to_device`` and ``copies.to_host``
make private copies, and :func:`changed` says whether that was kept.
"""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_private
from conformance.checking import trees
from conformance.samples import extent
from conformance.subjects.databases import Subject

#: Operators whose samples stay in memory; cases come ordered by operator.
OPERATORS_KEPT = 3


@dataclasses.dataclass
class Sample:
    """One call's arguments. ``process`` is what torch's database wants applied before a gradient is taken.

    ``stays`` are the places in ``args`` of tensors that the operator wants on the CPU, wherever its input is.
    """

    index: int
    input: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    process: Callable[[Any], Any] | None = None
    broadcasts_input: bool = False
    stays: frozenset[int] = frozenset()

    @property
    def arguments(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """(input, args, kwargs) as one tree."""
        return (self.input, self.args, self.kwargs)

    def tensors(self) -> list[torch.Tensor]:
        """All tensors of the arguments, in order."""
        return trees.tensors(self.arguments)

    def replace(self, **changes: Any) -> Sample:
        return dataclasses.replace(self, **changes)

    def call(self, op: Callable[..., Any]) -> Any:
        return op(self.input, *self.args, **self.kwargs)

    def describe(self) -> str:
        """The arguments in one short line, tensors as ``float32[2, 3]``."""

        def word(value: Any) -> str:
            if isinstance(value, torch.Tensor):
                text = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
                return text if value.layout is torch.strided else f"{value.layout} {text}"
            if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
                return "(" + ", ".join(word(item) for item in value) + ")"
            return repr(value)[:60]

        parts = [word(self.input), *(word(arg) for arg in self.args)]
        parts += [f"{key}={word(value)}" for key, value in self.kwargs.items()]
        text = ", ".join(parts)
        return text if len(text) <= 300 else text[:297] + "..."


def _has_zero_elements(sample: Sample) -> bool:
    return any(tensor.numel() == 0 for tensor in sample.tensors())


def _form(sample: Sample) -> tuple[Any, ...]:
    """Ranks of the tensors, types of the other arguments and names of the keywords."""
    words = [leaf.dim() if isinstance(leaf, torch.Tensor) else type(leaf).__name__
             for leaf in trees.leaves((sample.input, sample.args))]  # fmt: skip
    return (tuple(words), tuple(sorted(sample.kwargs)))


def evenly(count: int, limit: int) -> list[int]:
    """``limit`` indices spread evenly over ``range(count)``, the first and the last always among them."""
    if count <= limit:
        return list(range(count))
    if limit <= 1:
        return [0][:limit]
    return sorted({round(i * (count - 1) / (limit - 1)) for i in range(limit)})


class SampleSet:
    """The samples of one (operator, dtype)."""

    def __init__(self, name: str, samples: Sequence[Sample]) -> None:
        self.name = name
        self._samples = list(samples)
        self._handed_out: dict[int, tuple[int, ...]] = {}

    @property
    def available(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        sample = self._samples[index]
        if index not in self._handed_out:
            self._handed_out[index] = fingerprint(sample)
        return sample

    def chosen(self, limit: int | None) -> list[Sample]:
        """At most about ``limit`` samples: an even choice with the first and the last, and besides those as
        many as half the limit that hold a tensor of zero elements. ``None`` takes all. Where the user gave
        the limit it is never exceeded.
        """
        count = len(self._samples)
        if limit is None or count <= limit:
            return [self[i] for i in range(count)]
        picked = set(evenly(count, limit))
        if extent.exact:
            return [self[i] for i in sorted(picked)]
        empty = [i for i, sample in enumerate(self._samples) if _has_zero_elements(sample)]
        picked.update(empty[i] for i in evenly(len(empty), max(1, limit // 2)))
        return [self[i] for i in sorted(picked)]

    def varied(self, limit: int | None) -> list[Sample]:
        """At most ``limit`` samples that differ in the form of their call, as far as there are such: in the
        rank of a tensor, the type of an argument or the names of keywords. ``None`` takes all.

        Those without elements come last: what is compiled or captured for them computes nothing.
        """
        if limit is None or len(self._samples) <= limit:
            return [self[i] for i in range(len(self._samples))]
        firsts: dict[tuple[Any, ...], int] = {}
        for index, sample in enumerate(self._samples):
            firsts.setdefault((_has_zero_elements(sample), *_form(sample)), index)
        picked = [index for form, index in sorted(firsts.items(), key=lambda item: (item[0][0], item[1]))]
        picked = picked[:limit]
        for index in evenly(len(self._samples), 2 * limit):
            if len(picked) < limit and index not in picked:
                picked.append(index)
        return [self[i] for i in sorted(picked)]

    def changed(self) -> list[str]:
        """Names of the handed-out samples that are no longer what they were."""
        return [
            f"{self.name}[{index}]"
            for index, before in self._handed_out.items()
            if fingerprint(self._samples[index]) != before
        ]


def bits(tensor: torch.Tensor) -> bytes:
    """The bytes of a strided CPU tensor's storage."""
    storage = tensor.untyped_storage()
    count = storage.nbytes()
    return ctypes.string_at(storage.data_ptr(), count) if count else b""


def fingerprint(sample: Sample) -> tuple[int, ...]:
    """Version counters and checksums of all strided tensors of a sample."""
    numbers: list[int] = []
    for tensor in sample.tensors():
        numbers.append(tensor._version)
        if tensor.layout is torch.strided:
            numbers.append(zlib.crc32(bits(tensor)))
    return tuple(numbers)


_cache: collections.OrderedDict[str, dict[tuple[Any, ...], SampleSet]] = collections.OrderedDict()
_violations: list[str] = []


def _of_operator(key: str) -> dict[tuple[Any, ...], SampleSet]:
    sets = _cache.pop(key, None)
    if sets is None:
        sets = {}
        while len(_cache) >= OPERATORS_KEPT:
            _, evicted = _cache.popitem(last=False)
            for old in evicted.values():
                _violations.extend(old.changed())
    _cache[key] = sets
    return sets


def forget() -> None:
    """Drop all cached samples (for tests)."""
    _cache.clear()
    _violations.clear()


def changed() -> list[str]:
    """Shared samples that something wrote to, since the process began or among those still cached."""
    found = list(_violations)
    for sets in _cache.values():
        for one in sets.values():
            found.extend(one.changed())
    return found


#: Operators with a tensor argument that must be on the CPU by their documentation: its places.
_STAYS = {"tensor_split": frozenset({0})}


def wrap(found: Sequence[Any], operator: str = "") -> list[Sample]:
    """Samples from torch's SampleInputs, numbered in order."""
    return [
        Sample(
            index,
            item.input,
            tuple(item.args),
            dict(item.kwargs),
            torch_private.output_process(item),
            bool(getattr(item, "broadcasts_input", False)),
            _STAYS.get(operator, frozenset()),
        )
        for index, item in enumerate(found)
    ]


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    """The dtype of that name; raises LookupError where torch has none."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise LookupError(f"torch has no dtype named {name!r}")
    return found


def _cached(subject: Subject, key: tuple[Any, ...], make: Callable[[], Sequence[Any]]) -> SampleSet:
    sets = _of_operator(subject.name)
    if key not in sets:
        words = [word if isinstance(word, str) else str(word) for word in key]
        sets[key] = SampleSet("/".join([subject.name, *words]), wrap(make(), subject.name))
    return sets[key]


def samples_of(subject: Subject, dtype: torch.dtype, requires_grad: bool = False) -> SampleSet:
    """The shared samples of (operator, dtype); with ``requires_grad`` the differentiable inputs require
    grad.
    """
    seed = torch_private.seed_for("operator", subject.name, dtype_name(dtype))

    def make() -> Sequence[Any]:
        return torch_private.sample_inputs(_pristine(subject), dtype, requires_grad=requires_grad, seed=seed)

    return _cached(subject, ("samples", dtype_name(dtype), requires_grad), make)


def reference_samples_of(subject: Subject, dtype: torch.dtype) -> SampleSet:
    """The broader samples (extremal, small, large, broadcast, scalar) of (operator, dtype)."""
    seed = torch_private.seed_for("reference", subject.name, dtype_name(dtype))

    def make() -> Sequence[Any]:
        return torch_private.reference_inputs(_pristine(subject), dtype, seed=seed)

    return _cached(subject, ("reference", dtype_name(dtype)), make)


def _pristine(subject: Subject) -> Any:
    """Torch's own record, even where a test hands in a subject whose operator is broken on purpose."""
    from conformance.subjects.databases import find

    return find(subject.kind, subject.name).info
