"""Compute the reference of a call of an operator or of an overload on the CPU.

For each call, three values are computed once per process:

* ``outputs``: the result of the same call on the CPU in the same dtype, for shapes, dtypes, strides and
  integer values.
* ``high_precision``: the result of the call with all floating arguments and the default dtype in float64.
* ``sensitivity``: how far ``high_precision`` moves when the inputs move by half a unit of the dtype; see
  :mod:`conformance.framework.tolerances`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.compare import same_bits
from conformance.framework.tolerances import Rule, rule
from conformance.oracle import relations, value_digests
from conformance.oracle.filled_memory import FILLERS, fill_freed_memory_with_nan, fill_new_host_memory
from conformance.oracle.precision import HIGH_PRECISION_DTYPES, reproducible_cpu_state
from conformance.oracle.sensitivity import call_operator, coarsest_dtype, sensitivity_of
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import base_name
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


class CallForm(enum.Enum):
    """A form of a call: the function, its in-place form, or its form with ``out=``."""

    FUNCTION = "function"
    IN_PLACE = "in-place form"
    OUT = "form with out="

    def __str__(self) -> str:
        """Return the name of the form in messages."""
        return self.value


class Agreement(enum.Enum):
    """The required agreement of the values of a result with the reference."""

    #: Every value must agree within the tolerance rule of the operator.
    TOLERANCE = "values"
    #: Every bit must agree, including the signs of zeros. Any NaN equals any other NaN.
    BITS = "bits"
    #: A value must be NaN if the CPU's value is NaN, and infinite or NaN if the CPU's value is infinite.
    SPECIAL_VALUES = "special"
    #: A value must be infinite or NaN if the CPU's value is infinite. The algorithm decides which of the two.
    INFINITIES = "infinite"
    #: Every value must agree within the tolerance rule, and must not be 0 if the CPU's value is subnormal.
    SUBNORMALS = "small"
    #: The terms of each sum are whole numbers, and float32 represents every partial sum. Every value must
    #: agree within a few units of its dtype, because partial sums may be truncated to the dtype a few times.
    SUMS_OF_WHOLE_NUMBERS = "whole"
    #: The terms of each sum are whole numbers, and the dtype represents every partial sum. Every value must
    #: agree within the roundings of the last operation.
    EXACT_SUMS = "exact"


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of an operator or of an overload. Its arguments are on the CPU, as they were before the call."""

    subject: Subject
    dtype: torch.dtype
    sample: Sample

    @property
    def is_overload(self) -> bool:
        """True if the call bypasses the operator: the subject is a single overload of the dispatcher."""
        return self.subject.kind == "overload"

    @property
    def name(self) -> str:
        """The name of the call in the tables of relations: the operator, or the base name of the overload."""
        return base_name(self.subject.name) if self.is_overload else self.subject.name

    @property
    def relation(self) -> relations.Relation | None:
        """The relation that replaces the comparison of values; None if all values are specified."""
        table = relations.OVERLOAD_RELATIONS if self.is_overload else relations.RELATIONS
        return table.get(self.name)


@dataclasses.dataclass(frozen=True)
class HighPrecision:
    """The high-precision values of a call, and the sensitivity of each of their tensors.

    ``values`` has the nesting and the shapes of the call's result, with float64 or complex128 leaves. If the
    tolerance rule requires the dtype of the call (``oracle = "same"``), or the CPU refuses float64,
    ``values`` is the result itself.
    ``has_more_digits`` is True if ``values`` has more digits than the result. ``sensitivity`` has one entry
    for each tensor: a float64 tensor of the same shape, or None.
    """

    values: Any
    sensitivity: list[torch.Tensor | None]
    has_more_digits: bool = False


@dataclasses.dataclass
class Reference:
    """The CPU's outcome of one call.

    If the call raised an exception, ``error`` is set and ``outputs`` is None. Otherwise ``outputs`` is the
    result in the dtype of the call. ``written`` holds the positions of the argument tensors that the
    call writes, in the order of ``Sample.tensors``. High-precision values are expensive, so
    ``compute_high_precision`` runs at their first use.
    """

    call: Call
    outputs: Any = None
    error: Exception | None = None
    written: frozenset[int] = frozenset()
    agreement: Agreement = Agreement.TOLERANCE
    compute_high_precision: Callable[[], HighPrecision] | None = None

    @property
    def ok(self) -> bool:
        """True if the CPU raised no exception."""
        return self.error is None

    @property
    def subject(self) -> Subject:
        """The operator or overload that is called."""
        return self.call.subject

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the call."""
        return self.call.dtype

    @property
    def sample(self) -> Sample:
        """The arguments before the call."""
        return self.call.sample

    @functools.cached_property
    def tolerance_rule(self) -> Rule:
        """The tolerance rule of the call."""
        return rule(self.subject.name, self.dtype)

    @functools.cached_property
    def elements(self) -> int:
        """The number of elements of the largest input, at least 1."""
        return max([1, *(tensor.numel() for tensor in self.sample.tensors())])

    @functools.cached_property
    def coarsest_dtype(self) -> torch.dtype:
        """The floating dtype with the largest unit among the inputs, or the dtype that the call requests."""
        requested = self.sample.kwargs.get("dtype")
        # The pages of sums, norms and softmax say that the input is converted to this dtype first.
        if isinstance(requested, torch.dtype) and (requested.is_floating_point or requested.is_complex):
            return requested
        return coarsest_dtype(self.sample, self.dtype)

    @property
    def is_uninitialised(self) -> bool:
        """True if the operator returns memory without writing it."""
        return not self.call.is_overload and relations.is_uninitialised(self.subject.name)

    @property
    def fixes_signs_of_zeros(self) -> bool:
        """True if the result must have the CPU's signs of zeros. This is False for an operator."""
        return False

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

    def recompute(self) -> Reference:
        """Return the reference of the same call, computed again."""
        return reference_for(self.call)

    def is_reproducible(self, only_index: int | None = None) -> bool:
        """Return whether the CPU returns the same bits when new memory holds other bytes.

        ``only_index`` limits the comparison to one tensor of the result. Unspecified outputs may differ.
        """
        unspecified = relations.outputs_unspecified(self.call.name, self.sample)
        retained = []  # keeps earlier results allocated, so that the next call gets other memory
        sizes = [tensor.nbytes for tensor in trees.tensors(self.outputs)]
        fillings = (
            fill_freed_memory_with_nan(sizes),
            *(fill_new_host_memory(filler, sizes) for filler in FILLERS),
        )
        for memory in fillings:
            with memory:
                repeated = self.recompute()
            if not repeated.ok:
                return False
            retained.append(repeated)
            pairs = zip(trees.tensors(self.outputs), trees.tensors(repeated.outputs), strict=True)
            if not all(
                same_bits(old.resolve_conj().resolve_neg(), new.resolve_conj().resolve_neg())
                for index, (old, new) in enumerate(pairs)
                if (index not in unspecified if only_index is None else index == only_index)
            ):
                return False
        return True

    @functools.cached_property
    def reproducible(self) -> bool:
        """The cached result of :meth:`is_reproducible`."""
        return self.is_reproducible()


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


def reference_for(call: Call) -> Reference:
    """Return the reference of an operator's call without caching it.

    An exception of the operator is stored in ``error`` and not raised.
    """
    subject, dtype, sample = call.subject, call.dtype, call.sample
    info = find(subject.kind, subject.name).info
    seed, tolerance_rule = seed_of_call(call), rule(subject.name, dtype)
    with reproducible_cpu_state(torch.get_default_dtype(), seed):
        try:
            host = to_host(sample)
            outputs = _detached(call_operator(info, host))
        except Exception as error:
            return Reference(call, error=error)
    reference = Reference(call, outputs, written=written_tensors(sample, host))
    if not relations.is_only_metadata_specified(subject.name, sample):
        reference.compute_high_precision = lambda: high_precision_of(
            outputs, info, sample, dtype, tolerance_rule, seed
        )
    return reference


def reference_through_float64(call: Call) -> Reference:
    """Return the reference for a dtype without a CPU kernel: the float64 outputs, rounded to the dtype.

    The dtype is float16 or bfloat16. If the CPU refuses float64 too, ``error`` is the exception of the
    float64 call.
    """
    info = find(call.subject.kind, call.subject.name).info
    seed = seed_of_call(call)

    def rounded(leaf: Any) -> Any:
        wide = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64
        return leaf.to(call.dtype) if wide else leaf

    reference = Reference(call)
    with reproducible_cpu_state(torch.float64, seed):
        try:
            high_precision = _detached(call_operator(info, to_host(call.sample, HIGH_PRECISION_DTYPES)))
            sensitivity = sensitivity_of(
                info, call.sample, high_precision, call.dtype, seed, reference.tolerance_rule
            )
        except Exception as error:
            return Reference(call, error=error)
    reference.outputs = trees.tree_map(rounded, high_precision)
    reference.coarsest_dtype = call.dtype
    reference.compute_high_precision = lambda: HighPrecision(high_precision, sensitivity, True)
    return reference


def seed_of_call(call: Call) -> int:
    """Return the seed of the CPU's generator for the computation of a call's reference."""
    name = call.subject.name
    return torch_testing_internals.seed_for("oracle", name, dtype_name(call.dtype), str(call.sample.index))


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


def high_precision_of(
    outputs: Any, info: Any, sample: Sample, dtype: torch.dtype, tolerance_rule: Rule, seed: int
) -> HighPrecision:
    """Return the high-precision values of a call of ``info.op`` whose outputs in ``dtype`` are ``outputs``.

    The values are ``outputs`` itself if no output is floating, the tolerance rule is exact, or the CPU
    refuses float64.
    """
    values = HighPrecision(outputs, [None] * len(trees.tensors(outputs)))
    if tolerance_rule.exact or not _has_floating_result(outputs):
        return values
    with reproducible_cpu_state(torch.float64, seed):
        high_precision, has_more_digits = outputs, False
        if tolerance_rule.oracle == "float64":
            try:
                float64_outputs = _detached(call_operator(info, to_host(sample, HIGH_PRECISION_DTYPES)))
            except Exception:
                return values
            if not _same_nesting(float64_outputs, outputs):
                return values
            high_precision = float64_outputs
            has_more_digits = dtype not in (torch.float64, torch.complex128)
        sensitivity = sensitivity_of(info, sample, high_precision, dtype, seed, tolerance_rule)
    return HighPrecision(high_precision, sensitivity, has_more_digits)


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

    The digests of a fixed two percent of the values are sent to the journal. Another process recomputes
    these values.
    """
    key = (dtype_name(dtype), index)

    def make() -> Reference:
        source = samples if samples is not None else samples_of(subject, dtype)
        value = reference_for(Call(subject, dtype, source[index]))
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
    if value_digests.has_digest_receiver():
        value_digests.send_digest(operator, dtype, index, digest_of(value))


def _round_coarsely(leaf: torch.Tensor) -> torch.Tensor:
    """Return floating values rounded to multiples of a step, which is a fraction of the largest value. Return
    other values unchanged.

    The last bits of a solver's result depend on the alignment of the heap. The rounding removes these bits. A
    backend that changes the CPU's results changes more than these bits.
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
            if leaf.layout is torch.strided and leaf.numel() and not value.is_uninitialised:
                state.update(
                    bytes_of_storage(_round_coarsely(leaf.resolve_conj().resolve_neg().contiguous().clone()))
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
    return digest_of(reference_for(Call(subject, dtype, samples_of(subject, dtype)[index])))
