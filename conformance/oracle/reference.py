"""Compute the reference of an operator call on the CPU.

For each sample, three values are computed once per process:

* ``outputs``: the result of the same call on the CPU in the same dtype, for shapes, dtypes, strides and
  integer values.
* ``high_precision``: the result of the call with all floating arguments and the default dtype in float64.
* ``sensitivity``: how far ``high_precision`` moves when the inputs move by half a unit of the dtype; see
  :mod:`conformance.framework.tolerances`.
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
from conformance.oracle.precision import HIGH_PRECISION_DTYPES, reproducible_cpu_state
from conformance.oracle.sensitivity import call_operator, coarsest_dtype, sensitivity_of
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import to_host
from conformance.samples.operators import (
    Sample,
    SampleSet,
    bytes_of_storage,
    dtype_name,
    dtype_of,
    samples_of,
)
from conformance.subjects.torch_databases import Subject, find

#: One in this number of reference values is recomputed in a process that does not load the backend.
RECOMPUTATION_INTERVAL = 50


@dataclasses.dataclass(frozen=True)
class HighPrecision:
    """The high-precision values of a call, and the sensitivity of each of their tensors.

    ``values`` has the nesting and the shapes of the call's result, with float64 or complex128 leaves. If the
    tolerance rule demands the same dtype, or the CPU refuses float64, ``values`` is the result itself.
    ``has_more_digits`` is True if ``values`` has more digits than the result. ``sensitivity`` has one entry
    for each tensor: a float64 tensor of the same shape, or None.
    """

    values: Any
    sensitivity: list[torch.Tensor | None]
    has_more_digits: bool = False


@dataclasses.dataclass
class Reference:
    """The CPU's outcome of one call. If the call raised an exception, ``error`` is set and ``outputs`` is
    None.

    ``outputs`` is in the dtype of the call. ``elements`` is the number of elements of the largest input.
    ``coarsest_dtype`` is the floating dtype with the largest unit among the inputs. High-precision values are
    expensive, so ``compute_high_precision`` runs at their first use.
    """

    outputs: Any = None
    error: Exception | None = None
    elements: int = 1
    coarsest_dtype: torch.dtype = torch.float32
    uninitialised: bool = False
    compute_high_precision: Callable[[], HighPrecision] | None = None
    #: Positions of the argument tensors that the call writes, in the order of ``Sample.tensors``.
    written: frozenset[int] = frozenset()

    @property
    def ok(self) -> bool:
        """True if the CPU raised no exception."""
        return self.error is None

    @functools.cached_property
    def _high_precision(self) -> HighPrecision:
        if self.compute_high_precision is not None:
            return self.compute_high_precision()
        return HighPrecision(self.outputs, [None] * len(trees.tensors(self.outputs)))

    @property
    def high_precision(self) -> Any:
        """The outputs computed in float64 or complex128."""
        return self._high_precision.values

    @property
    def sensitivity(self) -> list[torch.Tensor | None]:
        """The sensitivity of each output tensor."""
        return self._high_precision.sensitivity

    @property
    def has_high_precision(self) -> bool:
        """True if ``high_precision`` has more digits than ``outputs``."""
        return self._high_precision.has_more_digits


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
    tolerance_rule: Rule | None = None,
    info: Any = None,
) -> Reference:
    """Return the reference of a sample without caching it.

    An exception of the operator is stored in ``error`` and not raised. ``tolerance_rule`` is by default the
    rule of the operator with the subject's name. ``info`` is the record whose ``op`` is called, by default
    torch's own OpInfo of the subject.
    """
    if info is None:
        info = find(subject.kind, subject.name).info
    if tolerance_rule is None:
        tolerance_rule = rule(subject.name, dtype)
    if seed is None:
        seed = torch_testing_internals.seed_for("oracle", subject.name, dtype_name(dtype), str(sample.index))
    with reproducible_cpu_state(torch.get_default_dtype(), seed):
        try:
            host = to_host(sample)
            outputs = _detached(call_operator(info, host))
        except Exception as error:
            return Reference(error=error)
    elements = max([1, *(t.numel() for t in sample.tensors())])
    expected = Reference(outputs=outputs, elements=elements, coarsest_dtype=coarsest_dtype(sample, dtype))
    expected.uninitialised = relations.is_uninitialised(subject.name)
    expected.written = written_tensors(sample, host)
    if (
        not _has_floating_result(outputs)
        or tolerance_rule.exact
        or relations.has_unspecified_values(subject.name, sample)
    ):
        return expected

    def raise_precision() -> HighPrecision:
        with reproducible_cpu_state(torch.float64, seed):
            return _compute_high_precision(outputs, info, sample, dtype, tolerance_rule, seed)

    expected.compute_high_precision = raise_precision
    return expected


def reference_through_float64(subject: Subject, dtype: torch.dtype, sample: Sample) -> Reference:
    """Return the reference for a dtype without a CPU kernel: the float64 outputs, rounded to ``dtype``.

    ``dtype`` is float16 or bfloat16. If the CPU refuses float64 too, ``error`` is the exception of the
    float64 call.
    """
    info = find(subject.kind, subject.name).info
    tolerance_rule = rule(subject.name, dtype)
    seed = torch_testing_internals.seed_for("oracle", subject.name, dtype_name(dtype), str(sample.index))

    def rounded(leaf: Any) -> Any:
        wide = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64
        return leaf.to(dtype) if wide else leaf

    with reproducible_cpu_state(torch.float64, seed):
        try:
            high_precision = _detached(call_operator(info, to_host(sample, HIGH_PRECISION_DTYPES)))
            sensitivity = sensitivity_of(info, sample, high_precision, dtype, seed, tolerance_rule)
        except Exception as error:
            return Reference(error=error)
    elements = max([1, *(t.numel() for t in sample.tensors())])
    return Reference(
        outputs=trees.tree_map(rounded, high_precision),
        elements=elements,
        coarsest_dtype=dtype,
        compute_high_precision=lambda: HighPrecision(high_precision, sensitivity, True),
    )


def written_tensors(before: Sample, after: Sample) -> frozenset[int]:
    """Return the positions of the strided tensors whose memory a call on the CPU has changed."""
    pairs = enumerate(zip(before.tensors(), after.tensors(), strict=True))
    return frozenset(
        tensor_index
        for tensor_index, (old, new) in pairs
        if old.layout is torch.strided
        and new.layout is torch.strided
        and bytes_of_storage(old) != bytes_of_storage(new)
    )


def _compute_high_precision(
    outputs: Any, info: Any, sample: Sample, dtype: torch.dtype, tolerance_rule: Rule, seed: int
) -> HighPrecision:
    high_precision, has_more_digits = outputs, False
    if tolerance_rule.oracle == "float64":
        try:
            float64_outputs = _detached(call_operator(info, to_host(sample, HIGH_PRECISION_DTYPES)))
        except Exception:
            float64_outputs = None
        if float64_outputs is None or not _same_nesting(float64_outputs, outputs):
            return HighPrecision(outputs, [None] * len(trees.tensors(outputs)))
        high_precision = float64_outputs
        has_more_digits = dtype not in (torch.float64, torch.complex128)
    return HighPrecision(
        high_precision,
        sensitivity_of(info, sample, high_precision, dtype, seed, tolerance_rule),
        has_more_digits,
    )


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
    """Return the reference of the shared sample at ``index``, computed once per process.

    The digest of one in fifty values goes to the journal, for a recomputation in another process. The
    selection is fixed.
    """
    key = (dtype_name(dtype), index)

    def make() -> Reference:
        source = samples if samples is not None else samples_of(subject, dtype)
        value = reference_for(subject, dtype, source[index])
        if value.ok and is_chosen_for_recomputation(subject.name, *key):
            announce_digest(subject.name, key[0], index, value)
        return value

    return _cache.value(subject.name, key, make)


def clear_cache() -> None:
    """Delete all cached values (for tests)."""
    _cache.clear()


def is_chosen_for_recomputation(operator: str, dtype: str, index: int) -> bool:
    """Return whether this value belongs to the fixed two percent that are recomputed."""
    return zlib.crc32(f"{operator}/{dtype}/{index}".encode()) % RECOMPUTATION_INTERVAL == 0


def announce_digest(operator: str, dtype: str, index: int, value: Reference) -> None:
    """Send the digest of a reference value to the registered receiver, if there is one."""
    if value_digests.has_receiver():
        value_digests.send_digest(operator, dtype, index, digest_of(value))


def _rounded_coarsely(leaf: torch.Tensor) -> torch.Tensor:
    """Return floating values as whole steps of a fraction of the largest value; return other values
    unchanged.

    The last bits of a solver's result depend on the alignment of the heap. A backend that changes the CPU's
    results changes more than the last bits.
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
    """Return a digest of all compared values. Uninitialised results contribute their metadata only."""
    state = hashlib.sha256()
    if value.error is not None:
        state.update(type(value.error).__name__.encode())
        return state.hexdigest()
    for leaf in [*trees.leaves(value.outputs), *trees.leaves(value.high_precision)]:
        if isinstance(leaf, torch.Tensor):
            state.update(f"{leaf.dtype}{list(leaf.shape)}{leaf.layout}".encode())
            if leaf.layout is torch.strided and leaf.numel() and not value.uninitialised:
                state.update(
                    bytes_of_storage(
                        _rounded_coarsely(leaf.resolve_conj().resolve_neg().contiguous().clone())
                    )
                )
        elif not callable(leaf):
            state.update(repr(leaf).encode())
    return state.hexdigest()


def recompute_digest(op_name: str, dtype_name: str, index: int) -> str:
    """Return the digest of one reference value, recomputed in this process. Raise LookupError for unknown
    names.
    """
    subject = find("operator", op_name)
    dtype = dtype_of(dtype_name)
    return digest_of(reference_for(subject, dtype, samples_of(subject, dtype)[index]))
