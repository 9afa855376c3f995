"""Samples of operators: the arguments with which properties call the operators.

Samples are made on the CPU, from a seed of (operator, dtype), once per process and operator. All properties
share them. An operator never receives a shared sample, because ``copies.to_device`` and ``copies.to_host``
make private copies. :func:`modified_samples` lists shared samples that were modified in spite of this rule.
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
from conformance.samples.defined_inputs import inputs_with_documented_results
from conformance.subjects.torch_databases import Subject


@dataclasses.dataclass
class Sample:
    """The arguments of one call, made on the CPU.

    ``process`` is a function of torch's database that is applied to the result before a gradient is computed.
    ``cpu_positions`` holds the positions in ``args`` of tensors that must be on the CPU.
    """

    index: int
    input: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    process: Callable[[Any], Any] | None = None
    broadcasts_input: bool = False
    cpu_positions: frozenset[int] = frozenset()

    @property
    def arguments(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The tuple (input, args, kwargs)."""
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
        """Call ``op`` with the arguments and return its result."""
        return op(self.input, *self.args, **self.kwargs)

    def describe(self) -> str:
        """Return the arguments in one line of at most 300 characters, with tensors as ``float32[2, 3]``."""

        def argument_text(value: Any) -> str:
            if isinstance(value, torch.Tensor):
                tensor_text = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
                return tensor_text if value.layout is torch.strided else f"{value.layout} {tensor_text}"
            if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
                return "(" + ", ".join(argument_text(item) for item in value) + ")"
            return repr(value)[:60]

        parts = [argument_text(self.input), *(argument_text(arg) for arg in self.args)]
        parts += [f"{key}={argument_text(value)}" for key, value in self.kwargs.items()]
        text = ", ".join(parts)
        return text if len(text) <= 300 else text[:297] + "..."


def _has_zero_elements(sample: Sample) -> bool:
    return any(tensor.numel() == 0 for tensor in sample.tensors())


def _form_of_arguments(sample: Sample) -> tuple[Any, ...]:
    """Return the ranks of the tensors, the types of the other arguments and the keyword names."""
    leaf_forms = [leaf.dim() if isinstance(leaf, torch.Tensor) else type(leaf).__name__
             for leaf in trees.leaves((sample.input, sample.args))]  # fmt: skip
    return (tuple(leaf_forms), tuple(sorted(sample.kwargs)))


def evenly_spaced_indices(count: int, limit: int) -> list[int]:
    """Return ``limit`` indices spread evenly over ``range(count)``, including the first and the
    last index.
    """
    if count <= limit:
        return list(range(count))
    if limit <= 1:
        return [0][:limit]
    return sorted({round(i * (count - 1) / (limit - 1)) for i in range(limit)})


#: A sample with more elements than this takes as long as hundreds of small samples. Each result uses only few
#: such samples.
LARGE_SAMPLE_ELEMENTS = 1 << 16
#: The maximal number of elements of a reference sample.
MAX_REFERENCE_ELEMENTS = 5000


class SampleSet:
    """The samples of one (operator, dtype), or the calls of one (overload, dtype)."""

    def __init__(self, name: str, samples: Sequence[Sample]) -> None:
        self.name = name
        self._samples = list(samples)
        # Pass the tensors of all samples in one call, because samples may share memory.
        memory_gaps.fill_gaps(tensor for sample in self._samples for tensor in sample.tensors())
        self._fingerprints: dict[int, tuple[int, ...]] = {}

    @property
    def available(self) -> int:
        """The number of samples."""
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        sample = self._samples[index]
        if index not in self._fingerprints:
            self._fingerprints[index] = sample_fingerprint(sample)
        return sample

    def chosen(self, limit: int | None) -> list[Sample]:
        """Return about ``limit`` samples, evenly spread over the list, with the first and the last. ``None``
        returns all samples.

        Up to ``limit / 2`` samples with an empty tensor are added. At most ``limit / 8`` samples have more
        than :data:`LARGE_SAMPLE_ELEMENTS` elements. If the user set the limit with ``--samples``, at most
        ``limit`` samples are returned.
        """
        if limit is None:
            return [self[i] for i in range(len(self._samples))]
        affordable = self._indices_without_most_large(limit)
        count = len(affordable)
        if count <= limit:
            return [self[i] for i in affordable]
        picked = {affordable[i] for i in evenly_spaced_indices(count, limit)}
        if sample_limit.exact:
            return [self[i] for i in sorted(picked)]
        empty = [i for i, sample in enumerate(self._samples) if _has_zero_elements(sample)]
        picked.update(empty[i] for i in evenly_spaced_indices(len(empty), max(1, limit // 2)))
        return [self[i] for i in sorted(picked)]

    def _indices_without_most_large(self, limit: int) -> list[int]:
        """Return the indices of all small samples and of at most ``limit / 8`` large samples."""
        large = [
            index
            for index, sample in enumerate(self._samples)
            if sum(tensor.numel() for tensor in sample.tensors()) > LARGE_SAMPLE_ELEMENTS
        ]
        few = max(1, limit // 8)
        omitted = set(large) - {large[i] for i in evenly_spaced_indices(len(large), few)}
        return [index for index in range(len(self._samples)) if index not in omitted]

    def varied(self, limit: int | None) -> list[Sample]:
        """Return at most ``limit`` samples, preferably with different call forms. ``None`` returns all.

        The form consists of the ranks of the tensors, the types of the arguments and the keyword names.
        Samples without elements come last, because their graphs compute nothing.
        """
        if limit is None or len(self._samples) <= limit:
            return [self[i] for i in range(len(self._samples))]
        firsts: dict[tuple[Any, ...], int] = {}
        for index, sample in enumerate(self._samples):
            firsts.setdefault((_has_zero_elements(sample), *_form_of_arguments(sample)), index)
        picked = [index for form, index in sorted(firsts.items(), key=lambda item: (item[0][0], item[1]))]
        picked = picked[:limit]
        for index in evenly_spaced_indices(len(self._samples), 2 * limit):
            if len(picked) < limit and index not in picked:
                picked.append(index)
        return [self[i] for i in sorted(picked)]

    def modified_sample_names(self) -> list[str]:
        """Return the names of the samples that were returned by this set and whose tensors were modified
        since.
        """
        return [
            f"{self.name}[{index}]"
            for index, before in self._fingerprints.items()
            if sample_fingerprint(self._samples[index]) != before
        ]


def bytes_of_storage(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a strided CPU tensor's storage."""
    storage = tensor.untyped_storage()
    count = storage.nbytes()
    return ctypes.string_at(storage.data_ptr(), count) if count else b""


def sample_fingerprint(sample: Sample) -> tuple[int, ...]:
    """Return the version counters and checksums of all strided tensors of a sample."""
    numbers: list[int] = []
    for tensor in sample.tensors():
        numbers.append(tensor._version)
        if tensor.layout is torch.strided:
            numbers.append(zlib.crc32(bytes_of_storage(tensor)))
    return tuple(numbers)


_violations: list[str] = []
_cache: SubjectCache[tuple[Any, ...], SampleSet] = SubjectCache(
    evicted=lambda samples: _violations.extend(samples.modified_sample_names())
)


def clear_cache() -> None:
    """Delete all cached samples (for tests)."""
    _cache.clear()
    _violations.clear()


def modified_samples() -> list[str]:
    """Return the names of shared samples whose tensors were modified since the process started."""
    names = list(_violations)
    for sets in _cache.values():
        for samples in sets.values():
            names.extend(samples.modified_sample_names())
    return names


#: By operator: positions of tensor arguments that must be on the CPU according to the operator's
#: documentation.
_STAYS = {"tensor_split": frozenset({0})}


def samples_from_inputs(inputs: Sequence[Any], operator: str = "") -> list[Sample]:
    """Return one sample for each of torch's SampleInputs, numbered in order."""
    return [
        Sample(
            index,
            item.input,
            tuple(item.args),
            dict(item.kwargs),
            torch_testing_internals.output_process_function(item),
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
    """Return the dtype with the given name. Raise LookupError if torch has none."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise LookupError(f"torch has no dtype named {name!r}")
    return dtype


def _cached(subject: Subject, key: tuple[Any, ...], make: Callable[[], Sequence[Any]]) -> SampleSet:
    name = "/".join([subject.name, *map(str, key)])
    return _cache.value(subject.name, key, lambda: SampleSet(name, samples_from_inputs(make(), subject.name)))


def samples_of(subject: Subject, dtype: torch.dtype, requires_grad: bool = False) -> SampleSet:
    """Return the shared samples of (operator, dtype).

    With ``requires_grad``, the differentiable inputs require grad.
    """
    seed = torch_testing_internals.seed_for("operator", subject.name, dtype_name(dtype))

    def make() -> Sequence[Any]:
        sample_inputs = torch_testing_internals.sample_inputs(
            _unmodified_op_info(subject), dtype, requires_grad=requires_grad, seed=seed
        )
        return inputs_with_documented_results(subject.name, sample_inputs)

    return _cached(subject, ("samples", dtype_name(dtype), requires_grad), make)


def reference_samples_of(subject: Subject, dtype: torch.dtype) -> SampleSet:
    """Return the shared reference samples (extremal, small, large, broadcast, scalar) of (operator, dtype).

    Samples with more than :data:`MAX_REFERENCE_ELEMENTS` elements are omitted. PyTorch uses these samples
    to measure speed, and the samples contain no further special values.
    """
    seed = torch_testing_internals.seed_for("reference", subject.name, dtype_name(dtype))

    def make() -> Sequence[Any]:
        sample_inputs = inputs_with_documented_results(
            subject.name,
            torch_testing_internals.reference_inputs(_unmodified_op_info(subject), dtype, seed=seed),
        )
        return [
            sample_input
            for sample_input in sample_inputs
            if trees.numel((sample_input.input, sample_input.args, sample_input.kwargs))
            <= MAX_REFERENCE_ELEMENTS
        ]

    return _cached(subject, ("reference", dtype_name(dtype)), make)


def _unmodified_op_info(subject: Subject) -> Any:
    """Return torch's OpInfo of the operator, also if a test injected a fault into ``subject``."""
    from conformance.subjects.torch_databases import find

    return find(subject.kind, subject.name).info
