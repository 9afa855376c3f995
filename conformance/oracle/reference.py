"""The oracle: what a result should be, computed on the CPU and as far as possible in float64.

For one sample three things are computed, once per process: the result of the same call on the CPU in the same
dtype (``plain``: shapes, dtypes, strides, integer results), the result of the call with all floating
arguments and the default dtype in float64 (``precise``), and how far ``precise`` moves when the inputs move
by half a unit of the dtype (``spread``, see :mod:`conformance.framework.tolerances`).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.tolerances import Rule, rule
from conformance.oracle import relations, value_digests
from conformance.oracle.precision import UP, surroundings
from conformance.oracle.sensitivity import call, coarsest, spread_of
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, SampleSet, bits, dtype_name, dtype_of, samples_of
from conformance.subjects.torch_databases import Subject, find

#: One in so many oracle values is recomputed in a process that never loaded the backend.
RECOMPUTED = 50


@dataclasses.dataclass(frozen=True)
class HighPrecision:
    """The values of a call in raised precision (``values``), and the ``spread`` of each of its tensors.

    ``values`` have the nesting and shapes of the call's own result with float64 or complex128 leaves; they
    are that result if the rule asks for the same dtype or float64 is refused. ``is_wider`` says that they
    have more digits than the result. Spreads are float64 tensors of the tensors' shapes, or None.
    """

    values: Any
    sensitivity: list[torch.Tensor | None]
    has_more_digits: bool = False


@dataclasses.dataclass
class Reference:
    """The CPU's values for one sample. If it raised, ``error`` is set and the rest is None.

    ``plain`` has the dtype of the call. ``elements`` is the number of elements of the largest input,
    ``computed`` the coarsest floating dtype that took part. ``raise_precision`` computes what costs most and
    is not always needed.
    """

    outputs: Any = None
    error: Exception | None = None
    elements: int = 1
    coarsest_dtype: torch.dtype = torch.float32
    uninitialised: bool = False
    compute_high_precision: Callable[[], HighPrecision] | None = None
    #: Which tensors of the arguments the call writes, counted as ``Sample.tensors`` does.
    written: frozenset[int] = frozenset()

    @property
    def ok(self) -> bool:
        """True if the CPU raised nothing."""
        return self.error is None

    @functools.cached_property
    def _raised(self) -> HighPrecision:
        if self.compute_high_precision is not None:
            return self.compute_high_precision()
        return HighPrecision(self.outputs, [None] * len(trees.tensors(self.outputs)))

    @property
    def high_precision(self) -> Any:
        """The values in raised precision."""
        return self._raised.values

    @property
    def sensitivity(self) -> list[torch.Tensor | None]:
        """The spread of each tensor."""
        return self._raised.sensitivity

    @property
    def has_high_precision(self) -> bool:
        """True if ``precise`` has more digits than ``plain``."""
        return self._raised.has_more_digits


def _detached(tree: Any) -> Any:
    def leaf(value: Any) -> Any:
        return value.detach() if isinstance(value, torch.Tensor) else value

    return trees.tree_map(leaf, tree)


def _same_nesting(left: Any, right: Any) -> bool:
    left_leaves, right_leaves = list(trees.leaves(left)), list(trees.leaves(right))
    if len(left_leaves) != len(right_leaves):
        return False
    for a, b in zip(left_leaves, right_leaves, strict=False):
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            return False
        if isinstance(a, torch.Tensor) and (a.shape != b.shape or a.layout != b.layout):
            return False
    return True


def reference_for(
    subject: Subject,
    dtype: torch.dtype,
    sample: Sample,
    *,
    seed: int | None = None,
    applied: Rule | None = None,
    info: Any = None,
) -> Reference:
    """Return the CPU's values for a sample, not cached; never raises for an error of the operator.

    ``applied`` is the rule of the tolerance, by default that of the operator of the subject's name; ``info``
    the record whose ``op`` is called, by default torch's own of the subject.
    """
    if info is None:
        info = find(subject.kind, subject.name).info
    if applied is None:
        applied = rule(subject.name, dtype)
    if seed is None:
        seed = torch_testing_internals.seed_for("oracle", subject.name, dtype_name(dtype), str(sample.index))
    with surroundings(torch.get_default_dtype(), seed):
        try:
            host = to_host(sample)
            plain = _detached(call(info, host))
        except Exception as error:
            return Reference(error=error)
    elements = max([1, *(t.numel() for t in sample.tensors())])
    expected = Reference(outputs=plain, elements=elements, coarsest_dtype=coarsest(sample, dtype))
    expected.uninitialised = relations.is_uninitialised(subject.name)
    expected.written = written_tensors(sample, host)
    if not _has_floating_result(plain) or applied.exact or relations.free_of_values(subject.name, sample):
        return expected

    def raise_precision() -> HighPrecision:
        with surroundings(torch.float64, seed):
            return _raised_precision(plain, info, sample, dtype, applied, seed)

    expected.compute_high_precision = raise_precision
    return expected


def reference_through_float64(subject: Subject, dtype: torch.dtype, sample: Sample) -> Reference:
    """Return the values for a sample in a dtype for which the CPU has no kernel: those of float64, rounded.

    ``dtype`` is float16 or bfloat16. The error is that of the call in float64, if it is refused as well.
    """
    info = find(subject.kind, subject.name).info
    applied = rule(subject.name, dtype)
    seed = torch_testing_internals.seed_for("oracle", subject.name, dtype_name(dtype), str(sample.index))

    def rounded(leaf: Any) -> Any:
        wide = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64
        return leaf.to(dtype) if wide else leaf

    with surroundings(torch.float64, seed):
        try:
            precise = _detached(call(info, to_host(sample, UP)))
            spread = spread_of(info, sample, precise, dtype, seed, applied)
        except Exception as error:
            return Reference(error=error)
    elements = max([1, *(t.numel() for t in sample.tensors())])
    return Reference(
        outputs=trees.tree_map(rounded, precise),
        elements=elements,
        coarsest_dtype=dtype,
        compute_high_precision=lambda: HighPrecision(precise, spread, True),
    )


def written_tensors(before: Sample, after: Sample) -> frozenset[int]:
    """Return the places of the strided tensors whose memory a call on the CPU has changed."""
    pairs = enumerate(zip(before.tensors(), after.tensors(), strict=True))
    return frozenset(
        place
        for place, (old, new) in pairs
        if old.layout is torch.strided and new.layout is torch.strided and bits(old) != bits(new)
    )


def _raised_precision(
    plain: Any, info: Any, sample: Sample, dtype: torch.dtype, applied: Rule, seed: int
) -> HighPrecision:
    precise, wider = plain, False
    if applied.oracle == "float64":
        try:
            raised = _detached(call(info, to_host(sample, UP)))
        except Exception:
            raised = None
        if raised is None or not _same_nesting(raised, plain):
            return HighPrecision(plain, [None] * len(trees.tensors(plain)))
        precise = raised
        wider = dtype not in (torch.float64, torch.complex128)
    return HighPrecision(precise, spread_of(info, sample, precise, dtype, seed, applied), wider)


def _has_floating_result(tree: Any) -> bool:
    for leaf in trees.leaves(tree):
        if isinstance(leaf, (float, complex)):
            return True
        if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            return True
    return False


_cache: SubjectCache[tuple[str, int], Reference] = SubjectCache()


def cached_reference(
    subject: Subject, dtype: torch.dtype, index: int, samples: SampleSet | None = None
) -> Reference:
    """Return the CPU's values for the shared sample of that index; computed once per process.

    One in fifty values, always the same ones, is announced to the journal for recomputation elsewhere.
    """
    key = (dtype_name(dtype), index)

    def make() -> Reference:
        source = samples if samples is not None else samples_of(subject, dtype)
        value = reference_for(subject, dtype, source[index])
        if value.ok and chosen_for_recomputation(subject.name, *key):
            announce(subject.name, key[0], index, value)
        return value

    return _cache.value(subject.name, key, make)


def forget() -> None:
    """Drop all cached values (for tests)."""
    _cache.clear()


def chosen_for_recomputation(operator: str, dtype: str, index: int) -> bool:
    """Return whether this value belongs to the fixed two in a hundred that are recomputed."""
    return zlib.crc32(f"{operator}/{dtype}/{index}".encode()) % RECOMPUTED == 0


def announce(operator: str, dtype: str, index: int, value: Reference) -> None:
    """Announce the digest of an oracle value to the journal, if anything receives announcements."""
    if value_digests.wanted():
        value_digests.announce(operator, dtype, index, digest_of(value))


def _coarse(leaf: torch.Tensor) -> torch.Tensor:
    """Return floating values as whole steps of a fraction of the largest one; others as they are.

    Solvers give other last bits if the heap is aligned otherwise; a backend that changes what the CPU
    computes changes more than that.
    """
    if leaf.is_complex():
        leaf = torch.view_as_real(leaf)
    if not leaf.is_floating_point():
        return leaf
    steps = 2.0**20 if leaf.dtype == torch.float64 else 2.0**6
    wide = leaf.double()
    finite = wide.isfinite()
    largest = torch.where(finite, wide.abs(), 0.0).max().clamp_min(torch.finfo(torch.float64).tiny)
    whole = torch.where(finite, (wide / largest * steps).round(), 0.0).long()
    kind = wide.isnan().long() + 2 * wide.isposinf().long() + 4 * wide.isneginf().long()
    return torch.stack([whole, kind])


def digest_of(value: Reference) -> str:
    """Return a digest of everything that is compared; uninitialised and random results count by their
    metadata.
    """
    state = hashlib.sha256()
    if value.error is not None:
        state.update(type(value.error).__name__.encode())
        return state.hexdigest()
    for leaf in [*trees.leaves(value.outputs), *trees.leaves(value.high_precision)]:
        if isinstance(leaf, torch.Tensor):
            state.update(f"{leaf.dtype}{list(leaf.shape)}{leaf.layout}".encode())
            if leaf.layout is torch.strided and leaf.numel() and not value.uninitialised:
                state.update(bits(_coarse(leaf.resolve_conj().resolve_neg().contiguous().clone())))
        elif not callable(leaf):
            state.update(repr(leaf).encode())
    return state.hexdigest()


def digest(op_name: str, dtype_name: str, index: int) -> str:
    """Return the digest of one oracle value, computed afresh in this process; LookupError for
    unknown names.
    """
    subject = find("operator", op_name)
    dtype = dtype_of(dtype_name)
    return digest_of(reference_for(subject, dtype, samples_of(subject, dtype)[index]))
