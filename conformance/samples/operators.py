"""Samples: the inputs on which properties are checked.

They are made on the CPU from a seed of (operator, dtype) only, once per process and operator, and shared by
all properties. The shared ones are never handed to an operator: ``copies.to_device`` and ``copies.to_host``
make private copies, and :func:`changed` says whether that was kept.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.samples import memory_gaps, sample_limit
from conformance.samples.cache import SubjectCache
from conformance.samples.defined_inputs import documented
from conformance.subjects.torch_databases import Subject


@dataclasses.dataclass
class Sample:
    """The arguments of one call, made on the CPU.

    ``process`` is the function that torch's database wants applied to the result before a gradient is taken.
    ``stays`` are the positions in ``args`` of tensors that must be on the CPU wherever the input is.
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
        """Return all tensors of the arguments, in order."""
        return trees.tensors((self.input, *self.args, *self.kwargs.values()))

    def replace(self, **changes: Any) -> Sample:
        """Return a copy of the sample with some fields changed."""
        new = object.__new__(type(self))
        vars(new).update(vars(self), **changes)
        return new

    def call(self, op: Callable[..., Any]) -> Any:
        """Return what ``op`` returns for the arguments."""
        return op(self.input, *self.args, **self.kwargs)

    def describe(self) -> str:
        """Return the arguments in one short line, tensors as ``float32[2, 3]``."""

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
    """Return ranks of the tensors, types of the other arguments and names of the keywords."""
    words = [leaf.dim() if isinstance(leaf, torch.Tensor) else type(leaf).__name__
             for leaf in trees.leaves((sample.input, sample.args))]  # fmt: skip
    return (tuple(words), tuple(sorted(sample.kwargs)))


def evenly(count: int, limit: int) -> list[int]:
    """Return ``limit`` indices spread evenly over ``range(count)``, the first and the last always
    among them.
    """
    if count <= limit:
        return list(range(count))
    if limit <= 1:
        return [0][:limit]
    return sorted({round(i * (count - 1) / (limit - 1)) for i in range(limit)})


#: A sample with more elements, all tensors together, takes as long as hundreds of others: a result takes few.
LARGE = 1 << 16
#: Elements of a reference sample, all tensors together.
REFERENCE_LARGEST = 5000


class SampleSet:
    """The samples of one (operator, dtype)."""

    def __init__(self, name: str, samples: Sequence[Sample]) -> None:
        self.name = name
        self._samples = list(samples)
        # All at once, as samples may share memory.
        memory_gaps.fill(tensor for sample in self._samples for tensor in sample.tensors())
        self._handed_out: dict[int, tuple[int, ...]] = {}

    @property
    def available(self) -> int:
        """Number of samples."""
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        sample = self._samples[index]
        if index not in self._handed_out:
            self._handed_out[index] = fingerprint(sample)
        return sample

    def chosen(self, limit: int | None) -> list[Sample]:
        """Return at most about ``limit`` samples: an even choice with the first and the last.

        Besides those it takes samples with a tensor of zero elements, at most half as many as the limit; of
        those with more than :data:`LARGE` elements it takes an eighth of the limit. ``None`` takes all. If
        the user named the limit it is never exceeded.
        """
        if limit is None:
            return [self[i] for i in range(len(self._samples))]
        affordable = self._affordable(limit)
        count = len(affordable)
        if count <= limit:
            return [self[i] for i in affordable]
        picked = {affordable[i] for i in evenly(count, limit)}
        if sample_limit.exact:
            return [self[i] for i in sorted(picked)]
        empty = [i for i, sample in enumerate(self._samples) if _has_zero_elements(sample)]
        picked.update(empty[i] for i in evenly(len(empty), max(1, limit // 2)))
        return [self[i] for i in sorted(picked)]

    def _affordable(self, limit: int) -> list[int]:
        """The indices of all samples but most of the large ones."""
        large = [
            index
            for index, sample in enumerate(self._samples)
            if sum(tensor.numel() for tensor in sample.tensors()) > LARGE
        ]
        few = max(1, limit // 8)
        left_out = set(large) - {large[i] for i in evenly(len(large), few)}
        return [index for index in range(len(self._samples)) if index not in left_out]

    def varied(self, limit: int | None) -> list[Sample]:
        """Return at most ``limit`` samples that differ in the form of their call, as far as there are such.

        The form is the ranks of the tensors, the types of the arguments and the names of the keywords.
        ``None`` takes all. Samples without elements come last: what is compiled or captured for them computes
        nothing.
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
        """Return the names of the handed-out samples that something has written to."""
        return [
            f"{self.name}[{index}]"
            for index, before in self._handed_out.items()
            if fingerprint(self._samples[index]) != before
        ]


def bits(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a strided CPU tensor's storage."""
    storage = tensor.untyped_storage()
    count = storage.nbytes()
    return ctypes.string_at(storage.data_ptr(), count) if count else b""


def fingerprint(sample: Sample) -> tuple[int, ...]:
    """Return version counters and checksums of all strided tensors of a sample."""
    numbers: list[int] = []
    for tensor in sample.tensors():
        numbers.append(tensor._version)
        if tensor.layout is torch.strided:
            numbers.append(zlib.crc32(bits(tensor)))
    return tuple(numbers)


_violations: list[str] = []
_cache: SubjectCache[tuple[Any, ...], SampleSet] = SubjectCache(
    evicted=lambda samples: _violations.extend(samples.changed())
)


def forget() -> None:
    """Drop all cached samples (for tests)."""
    _cache.clear()
    _violations.clear()


def changed() -> list[str]:
    """Return the names of shared samples that something wrote to, since the process began."""
    names = list(_violations)
    for sets in _cache.values():
        for samples in sets.values():
            names.extend(samples.changed())
    return names


#: Operators with a tensor argument that must be on the CPU by their documentation: its positions.
_STAYS = {"tensor_split": frozenset({0})}


def wrap(inputs: Sequence[Any], operator: str = "") -> list[Sample]:
    """Return samples from torch's SampleInputs, numbered in order."""
    return [
        Sample(
            index,
            item.input,
            tuple(item.args),
            dict(item.kwargs),
            torch_testing_internals.output_process(item),
            bool(getattr(item, "broadcasts_input", False)),
            _STAYS.get(operator, frozenset()),
        )
        for index, item in enumerate(inputs)
    ]


@functools.cache
def dtype_name(dtype: torch.dtype) -> str:
    """Return ``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    """Return the dtype of that name; raises LookupError if torch has none."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise LookupError(f"torch has no dtype named {name!r}")
    return dtype


def _cached(subject: Subject, key: tuple[Any, ...], make: Callable[[], Sequence[Any]]) -> SampleSet:
    name = "/".join([subject.name, *map(str, key)])
    return _cache.value(subject.name, key, lambda: SampleSet(name, wrap(make(), subject.name)))


def samples_of(subject: Subject, dtype: torch.dtype, requires_grad: bool = False) -> SampleSet:
    """Return the shared samples of (operator, dtype).

    With ``requires_grad`` the differentiable inputs require grad.
    """
    seed = torch_testing_internals.seed_for("operator", subject.name, dtype_name(dtype))

    def make() -> Sequence[Any]:
        made = torch_testing_internals.sample_inputs(
            _pristine(subject), dtype, requires_grad=requires_grad, seed=seed
        )
        return documented(subject.name, made)

    return _cached(subject, ("samples", dtype_name(dtype), requires_grad), make)


def reference_samples_of(subject: Subject, dtype: torch.dtype) -> SampleSet:
    """Return the broader samples (extremal, small, large, broadcast, scalar) of (operator, dtype).

    Those of more than :data:`REFERENCE_LARGEST` elements are left out: they have shapes for speed, not values
    of another kind.
    """
    seed = torch_testing_internals.seed_for("reference", subject.name, dtype_name(dtype))

    def make() -> Sequence[Any]:
        made = documented(
            subject.name, torch_testing_internals.reference_inputs(_pristine(subject), dtype, seed=seed)
        )
        return [one for one in made if trees.numel((one.input, one.args, one.kwargs)) <= REFERENCE_LARGEST]

    return _cached(subject, ("reference", dtype_name(dtype)), make)


def _pristine(subject: Subject) -> Any:
    """Return torch's own record, even if a test hands in a subject whose operator is broken on purpose."""
    from conformance.subjects.torch_databases import find

    return find(subject.kind, subject.name).info
