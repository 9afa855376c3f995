"""References of overload calls on the CPU, and the comparison of a device's results with them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees, undeclared_dtypes
from conformance.framework.calls import attempt, report_error
from conformance.framework.compare import (
    compare_leaf_counts,
    compare_metadata,
    compare_values,
    fact,
    on_host,
    same_bits,
)
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Rule
from conformance.model.verdicts import Kind
from conformance.oracle import relations
from conformance.oracle.overload_tolerance import rule_of_overload
from conformance.oracle.reference import Reference, reference_for, written_tensors
from conformance.oracle.relations import indices
from conformance.properties.overloads import _invariants
from conformance.properties.overloads._memory import FILLERS, freed_memory_of_nan, host_memory_holding
from conformance.properties.shared.comparison import tolerance_for
from conformance.properties.shared.dtypes import declared_dtypes
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.enlarged import Enlargement, enlargements
from conformance.samples.handmade_calls import calls
from conformance.samples.operators import Sample, SampleSet, dtype_name, dtype_of
from conformance.samples.recorded_calls import calls_of, deterministic_calls_of
from conformance.subjects.overloads import Overload
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target


def dtypes(property_name: str, target: Target, subject: Subject) -> Sequence[str]:
    """Return the target's declared dtypes in which some operator calls the overload.

    Dtypes in which the property ``property_name`` has nothing to check are omitted. Another property checks
    overloads that draw random numbers; the result is limited here to dtypes with arguments for which their
    result is certain.
    """
    dtype_names = dtypes_with_checks(property_name, target, subject)
    if not subject.info.random:
        return dtype_names
    return [
        dtype
        for dtype in dtype_names
        if property_name in _WITH_CERTAIN_RESULTS and deterministic_calls_of(subject, dtype).available
    ]


#: Properties whose modified calls still have a certain result.
_WITH_CERTAIN_RESULTS = frozenset({"overload-forms", "overload-layouts", "overload-shapes"})


def dtypes_with_checks(property_name: str, target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtypes of :func:`dtypes` without the restriction for overloads that draw random numbers."""
    idle = subject.info.idle.get(property_name, ())
    return [dtype for dtype in declared_dtypes_with_calls(target, subject) if dtype not in idle]


def declared_dtypes_with_calls(target: Target, subject: Subject) -> Sequence[str]:
    """Return the target's declared dtypes in which some operator calls the overload."""
    able = set[str]().union(
        *(declared_dtypes(target, find("operator", name)) for name in subject.info.operators)
    )
    return [name for name in subject.info.dtypes if name in target.dtypes and name in able]


class Agreement(enum.Enum):
    """The required agreement of the values of a result with the reference."""

    #: Every value, within the tolerance rule of the operator.
    TOLERANCE = "values"
    #: Every bit, signs of zeros included. Any NaN equals any other NaN.
    BITS = "bits"
    #: NaN if the CPU's value is NaN, and infinity or NaN if the CPU's value is infinite.
    SPECIAL_VALUES = "special"
    #: Infinity or NaN if the CPU's value is infinite: the algorithm decides which of them results.
    INFINITIES = "infinite"
    #: Every value, within the tolerance rule; and not zero if the CPU's value is subnormal.
    SUBNORMALS = "small"


#: Overloads that read memory by their arguments without validating them, because their callers have done so.
#: torch's own kernels crash for shapes and options that those callers do not pass.
_UNCHECKED = re.compile(
    r"_chunk_cat|_pdist|\w*batch_norm|_embedding_bag|_segment_reduce|_fft_|\w*_backward|lu_unpack"
)


#: Overloads with handmade calls that only operators call; overloads whose kernels validate are excluded.
_ONLY_CALLED_BY_OPERATORS = re.compile(
    r"_(?!histogramdd|linalg_(svd|eigh)$|functional_assert)[^_]|.*(\.data|_jvp)$"
)


#: Overloads that return values and their indices.
_RETURNS_INDICES = re.compile(
    r"(sort|topk|kthvalue|median|nanmedian|cummax|cummin|\w*max_pool\dd_with_indices|adaptive_max_pool\dd"
    r"|fractional_max_pool\dd)$"
)


#: Operations of IEEE 754 (5.4, 6.3). torch's documentation says that its devices compute by that standard.
_ARITHMETIC = re.compile(r"(add|sub|mul|div|neg|abs|sqrt)$")


def fixes_signs_of_zeros(name: str) -> bool:
    """Return whether IEEE 754 fixes the sign of a zero that the overload computes."""
    return _ARITHMETIC.match(name) is not None


def is_unchecked(subject: Subject) -> bool:
    """Return whether only calls made by operators are defined.

    The overload then reads memory by its arguments without validating them.
    """
    overload: Overload = find(subject.kind, subject.name).info
    if overload.pointwise:
        return False
    if subject.name in calls.HANDMADE_CALLS and _ONLY_CALLED_BY_OPERATORS.match(subject.name):
        return True
    return overload.backward or _UNCHECKED.match(subject.name) is not None


@dataclasses.dataclass
class OverloadReference:
    """The outcome of a call on the CPU.

    ``sample`` holds the arguments before the call and ``after`` the arguments after it. ``outputs`` holds the
    results; for an overload that writes arguments without returning them, it is the pair (results, written
    arguments).
    """

    subject: Subject
    dtype: torch.dtype
    sample: Sample
    after: Sample
    outputs: Any
    agreement: Agreement = Agreement.TOLERANCE

    @functools.cached_property
    def overload(self) -> Overload:
        """torch's own overload, even if the subject is a broken one of a test."""
        return torch_overload(self.subject)

    @property
    def returned(self) -> Any:
        """The results of the call without the arguments that it wrote but did not return."""
        return self.outputs[0] if hidden_writes(self.overload.op) else self.outputs

    @property
    def fixes_signs_of_zeros(self) -> bool:
        """True if IEEE 754 fixes the sign of a zero in the result, as it does for arithmetic."""
        return fixes_signs_of_zeros(base_name(self.subject.name))

    @functools.cached_property
    def written(self) -> frozenset[int]:
        """The indices in ``Sample.tensors`` of the tensors that the call changed."""
        return written_tensors(self.sample, self.after)

    @functools.cached_property
    def reproducible(self) -> bool:
        """True if the CPU returns the same bits when new memory holds other bytes.

        The value is cached, because every form and layout of the call needs it.
        """
        return is_reproducible_on_cpu(self)

    @functools.cached_property
    def rule(self) -> Rule:
        """The tolerance rule of the operator that calls the overload."""
        return rule_of_overload(self.subject.name, self.overload, self.dtype, self.sample)

    @functools.cached_property
    def expected(self) -> Reference:
        """The reference with high-precision values and sensitivities; computed on first access."""
        info = self.overload
        if hidden_writes(info.op):
            info = dataclasses.replace(info, op=functools.partial(_call_with_hidden_writes, info.op))
        expected = reference_for(self.subject, self.dtype, self.sample, tolerance_rule=self.rule, info=info)
        same = [t.dtype for t in trees.tensors(expected.outputs)] == [
            t.dtype for t in trees.tensors(self.outputs)
        ]
        return expected if same else Reference(error=TypeError("the call was made in place"))

    @functools.cached_property
    def enlargements(self) -> Iterable[Enlargement]:
        """The enlargements of the call that the CPU accepts; each is computed once, on first access."""
        return _CachedIterable(enlargements(self.subject, self.sample))

    @functools.cached_property
    def values_that_affect_result(self) -> dict[int, bool]:
        """A cache: by index of a tensor, whether its values affect the result."""
        return {}

    @property
    def has_in_place_reference(self) -> bool:
        """True if the call can be made in place."""
        return self.in_place is not None

    @functools.cached_property
    def in_place(self) -> OverloadReference | None:
        """The reference of the call in place; None if the form does not exist or the result does not fit.

        A result whose dtype differs from the first argument's, such as the result of a comparison, is
        converted.
        """
        outputs, first = self.outputs, self.sample.input
        tensors = isinstance(outputs, torch.Tensor) and isinstance(first, torch.Tensor)
        if self.overload.in_place is None or not tensors or outputs.shape != first.shape:
            return None
        if outputs.dtype == first.dtype:
            return self
        host = to_host(self.sample)
        outcome = attempt(lambda: call_without_warnings(self.overload.in_place, host))
        if not outcome.ok:
            return None
        return dataclasses.replace(self, after=host, outputs=outcome.value.detach())


class _CachedIterable(Iterable[Enlargement]):
    """An iterable that stores the items of an iterator, so that it can be iterated again."""

    def __init__(self, source: Iterator[Enlargement]) -> None:
        self._source = source
        self._cached: list[Enlargement] = []

    def __iter__(self) -> Iterator[Enlargement]:
        for index in itertools.count():
            if index == len(self._cached):
                self._cached.extend(itertools.islice(self._source, 1))
            if index == len(self._cached):
                return
            yield self._cached[index]


def overload_reference(
    subject: Subject, dtype: str, sample: Sample, agreement: Agreement = Agreement.TOLERANCE
) -> OverloadReference | None:
    """Return the reference of a call; None if the CPU raises or returns a tensor that is not strided."""
    host = to_host(sample)
    outcome = attempt(lambda: call_without_warnings(torch_overload(subject).op, host))
    if not outcome.ok:
        return None
    returned = outputs_with_hidden_writes(torch_overload(subject).op, host, outcome.value)
    outputs = trees.tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, returned)
    if any(tensor.layout is not torch.strided for tensor in trees.tensors(outputs)):
        return None
    return OverloadReference(subject, dtype_of(dtype), sample, host, outputs, agreement)


def outputs_with_hidden_writes(op: Any, sample: Sample, returned: Any) -> Any:
    """Return the outputs of a call followed by the arguments that it wrote but did not return."""
    written = hidden_writes(op)
    if not written:
        return returned
    arguments = [sample.input, *sample.args]
    values = [
        arguments[position] if position < len(arguments) else sample.kwargs.get(name)
        for position, name in written
    ]
    return (returned, values)


def _call_with_hidden_writes(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Call an operator and return the result of :func:`outputs_with_hidden_writes`."""
    return outputs_with_hidden_writes(op, Sample(0, args[0], args[1:], kwargs), op(*args, **kwargs))


@functools.cache
def hidden_writes(op: Any) -> Sequence[tuple[int, str]]:
    """Return position and name of each argument that an overload writes but does not return."""
    returned = {frozenset(r.alias_info.after_set) for r in op._schema.returns if r.alias_info is not None}
    return [
        (position, argument.name)
        for position, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and frozenset(argument.alias_info.after_set) not in returned
    ]


def torch_overload(subject: Subject) -> Overload:
    """Return torch's own overload, even if the subject is a broken one of a test."""
    overload: Overload = find(subject.kind, subject.name).info
    return overload


def is_reproducible_on_cpu(reference: OverloadReference, only_index: int | None = None) -> bool:
    """Return whether the CPU returns the same bits when new memory holds other bytes.

    ``only_index`` limits the comparison to one tensor of the result. Unspecified outputs may differ.
    """
    unspecified = relations.unspecified_outputs(base_name(reference.subject.name), reference.sample)
    retained = []  # so that the next call gets other memory, with other traces of the allocator in it
    sizes = [tensor.nbytes for tensor in trees.tensors(reference.outputs)]
    for memory in (freed_memory_of_nan(sizes), *(host_memory_holding(filler, sizes) for filler in FILLERS)):
        with memory:
            repeated = overload_reference(reference.subject, dtype_name(reference.dtype), reference.sample)
        if repeated is None:
            return False
        retained.append(repeated)
        pairs = list(zip(trees.tensors(reference.outputs), trees.tensors(repeated.outputs), strict=True))
        if not all(
            same_bits(old.resolve_conj().resolve_neg(), new.resolve_conj().resolve_neg())
            for output_index, (old, new) in enumerate(pairs)
            if (output_index not in unspecified if only_index is None else output_index == only_index)
        ):
            return False
    return True


def call_without_warnings(op: Any, sample: Sample) -> Any:
    """Call an operator with warnings silenced, without gradients and with the host's generator seeded."""
    with torch_testing_internals.torch_seeded(0), torch_testing_internals.quiet(), torch.no_grad():
        return sample.call(op)


#: References by the identities of the subject and of its calls; the entry holds both so that they stay alive.
#: Tests pass broken subjects of the same name, and shrinking passes other calls of the same subject.
_cached_references: SubjectCache[tuple[int, int], tuple[Subject, SampleSet, list[OverloadReference]]] = (
    SubjectCache()
)


def _references_of_calls(subject: Subject, dtype: str, calls: SampleSet) -> Iterator[OverloadReference]:
    for index in range(calls.available):
        reference = overload_reference(subject, dtype, calls[index])
        if reference is not None:
            yield reference


def references(
    target: Target, subject: Subject, recorder: Recorder, limit: int, *, drawn: bool = False
) -> Iterator[OverloadReference]:
    """Yield references of the overload's calls in the dtype of the recorded result, ``limit`` at most.

    A call that can be made in place comes first if one exists. Without ``drawn``, an overload that draws
    random numbers yields only calls whose result is certain.
    """
    dtype = recorder.id.dtype
    certain = subject.info.random and not drawn
    calls = deterministic_calls_of(subject, dtype) if certain else calls_of(subject, dtype)
    recorder.samples(0, calls.available)
    _, _, all_references = _cached_references.value(
        subject.name,
        (id(subject), id(calls)),
        lambda: (subject, calls, list(_references_of_calls(subject, dtype, calls))),
    )
    usable = [reference for reference in all_references if has_only_declared_dtypes(target, reference)]
    usable.sort(key=_has_uniform_outputs)
    in_place_first = max(
        (reference for reference in usable if reference.has_in_place_reference),
        key=_number_of_elements_and_dimensions,
        default=None,
    )
    ordered = (
        usable
        if in_place_first is None
        else [in_place_first, *(reference for reference in usable if reference is not in_place_first)]
    )
    for reference in ordered[:limit]:
        recorder.samples(1, 0)
        yield reference
    if not usable:
        recorder.allow_nothing_compared(
            f"every call of the overload in {dtype} needs a dtype that the target does not declare"
        )


def references_of_table(
    target: Target, subject: Subject, dtype: str, table: Mapping[str, calls.HandmadeCalls]
) -> Iterator[OverloadReference]:
    """Yield references of the calls of a table that the CPU accepts and whose dtypes the target declares."""
    for sample in calls.handmade_samples(subject.name, dtype, table):
        reference = overload_reference(subject, dtype, sample)
        if reference is not None and has_only_declared_dtypes(target, reference):
            yield reference


def has_only_declared_dtypes(target: Target, reference: OverloadReference) -> bool:
    """Return whether the target declares every dtype of the call's arguments and outputs."""
    return not undeclared_dtypes.undeclared_among(target, reference.sample.arguments, reference.outputs)


def _number_of_elements_and_dimensions(reference: OverloadReference) -> tuple[int, int, bool]:
    """Return a sort key that prefers tensors with several elements in several dimensions."""
    tensors = reference.sample.tensors()
    return (
        min(min(t.numel(), 8) for t in tensors),
        min(min(t.dim(), 2) for t in tensors),
        not _has_uniform_outputs(reference),
    )


def _has_uniform_outputs(reference: OverloadReference) -> bool:
    """Return whether each output with several elements has the same value everywhere.

    Such a call detects little.
    """
    results = [t for t in trees.tensors(reference.outputs) if t.numel() > 1 and t.layout is torch.strided]
    return bool(results) and all(
        same_bits(t, t.reshape(-1)[:1].expand_as(t))
        for t in (r.resolve_conj().resolve_neg() for r in results)
    )


def compare_overload_outputs(
    target: Target, recorder: Recorder, reference: OverloadReference, actual: Any, label: str
) -> bool:
    """Compare a result of the device with the reference: nesting, metadata and values.

    Return whether they agree.

    Values agree if they have the CPU's bits. Other values must be within the tolerance of the operator that
    calls the overload, measured from the high-precision values.
    """
    index = reference.sample.index
    name = base_name(reference.subject.name)
    if not compare_leaf_counts(recorder, actual, reference.outputs, label=label, sample=index):
        return False
    agrees = True
    unspecified = relations.unspecified_outputs(name, reference.sample)
    unspecified_indices = _unspecified_indices(name, reference.sample)
    parts = list(zip(trees.leaves(actual), trees.leaves(reference.outputs), strict=True))
    for number, (value, base) in enumerate(parts):
        if number in unspecified:
            continue
        if not isinstance(base, torch.Tensor):
            text = f"{label} is {value!r}, expected {base!r}."
            agrees &= fact(recorder, value == base, Kind.VALUE, text, sample=index)
            continue
        part = label if len(parts) == 1 else f"part {number} of {label}"
        may_be_float32 = number in relations.saved_statistics(name) and base.dtype in (
            torch.bfloat16,
            torch.float16,
        )
        if not compare_metadata(
            recorder,
            value,
            base,
            label=part,
            sample=index,
            device=target.torch_device,
            dtype=not may_be_float32,
        ):
            agrees = False
            continue
        if name not in _invariants.INVARIANTS and name != "mode" and number not in unspecified_indices:
            agrees &= _compare_output(target, recorder, reference, number, value, part)
        elif value.dtype == torch.bool and value.numel():
            agrees &= _stores_bools_as_0_or_1(recorder, value, part, index)
    if agrees and name in _invariants.INVARIANTS:
        agrees = _invariants.compare_invariants(
            recorder, name, reference.sample, trees.tensors(actual), trees.tensors(reference.outputs), label
        )
    if agrees and name == "mode":
        agrees = _returns_most_frequent_values(recorder, reference, actual, label)
    return agrees


def _returns_most_frequent_values(
    recorder: Recorder, reference: OverloadReference, actual: Any, label: str
) -> bool:
    """Return whether ``mode`` returned a most frequent value.

    Any one is correct if several values appear most often. The documentation does not define the result for
    NaN.
    """
    index = reference.sample.index
    if reference.agreement in (Agreement.SPECIAL_VALUES, Agreement.INFINITIES):
        return True
    parts = [on_host(part) for part in trees.tensors(actual)]
    return all(
        compare_values(
            recorder,
            equation.actual,
            equation.expected,
            tolerance=EXACT,
            label=f"{equation.label} of {label}",
            sample=index,
        )
        for equation in indices.mode(parts, trees.tensors(reference.outputs), reference.sample)
    )


def _unspecified_indices(name: str, sample: Sample) -> frozenset[int]:
    """Return the outputs that hold unspecified indices.

    Indices of equal values and of NaN are unspecified. The values themselves are specified.
    """
    if not _RETURNS_INDICES.match(name) or not isinstance(sample.input, torch.Tensor):
        return frozenset()
    values = sample.input.detach()
    if bool(values.isfinite().all()) and len(torch.unique(values)) == values.numel():
        return frozenset()
    return frozenset({1})


def _compare_output(
    target: Target,
    recorder: Recorder,
    reference: OverloadReference,
    number: int,
    value: torch.Tensor,
    label: str,
) -> bool:
    base = list(trees.leaves(reference.outputs))[number]
    index = reference.sample.index
    fetched = attempt(lambda: on_host(value))
    if not fetched.ok:
        assert fetched.error is not None
        report_error(target, recorder, fetched.error, label=f"reading {label}", sample=index)
        return False
    actual_host, expected_host = fetched.value, on_host(base)
    if (
        actual_host.dtype == torch.bool
        and actual_host.numel()
        and not _stores_bools_as_0_or_1(recorder, value, label, index)
    ):
        return False
    zeros = reference.fixes_signs_of_zeros or reference.agreement is Agreement.BITS
    if actual_host.dtype == expected_host.dtype and same_bits(actual_host, expected_host, zeros=zeros):
        recorder.compared(actual_host.numel())
        return True
    if reference.agreement in (Agreement.SPECIAL_VALUES, Agreement.INFINITIES):
        return _keeps_special_values(recorder, reference, actual_host, expected_host, label)
    applied, expected = reference.rule, reference.expected
    floating = base.is_floating_point() or base.is_complex()
    if not floating or applied.exact or reference.agreement is Agreement.BITS:
        return compare_values(
            recorder,
            actual_host,
            expected_host,
            tolerance=EXACT,
            label=label,
            sample=index,
            signed_zeros=zeros,
        )
    tensors = [i for i, leaf in enumerate(trees.leaves(reference.outputs)) if isinstance(leaf, torch.Tensor)]
    tensor_index = tensors.index(number)
    high_precision = trees.tensors(expected.high_precision)[tensor_index] if expected.ok else base
    sensitivity = expected.sensitivity[tensor_index] if expected.ok else None
    if sensitivity is None and not applied.local and high_precision.numel():
        sensitivity = (
            high_precision.abs().to(torch.float64).mean()
        )  # a sum that cancels has the errors of its terms
    peer = not expected.has_high_precision
    bound = tolerance_for(target, applied, base.dtype, expected.coarsest_dtype, expected.elements, peer=peer)
    trial, cpu_trial = recorder.scratch(), recorder.scratch()
    if compare_values(
        trial,
        actual_host,
        high_precision,
        tolerance=bound,
        label=label,
        sample=index,
        sensitivity=sensitivity,
    ):
        recorder.merge(trial)
        if reference.agreement is Agreement.SUBNORMALS and not _keeps_subnormals(
            recorder, actual_host, expected_host, label, index
        ):
            return False
        return not reference.fixes_signs_of_zeros or _signs_of_zeros_agree(
            recorder, actual_host, expected_host, label, index
        )
    if not compare_values(
        cpu_trial,
        expected_host,
        high_precision,
        tolerance=bound,
        label=label,
        sample=index,
        sensitivity=sensitivity,
    ):
        recorder.allow_nothing_compared(f"the CPU's own {label} is not within the tolerance")
        recorder.note(f"the CPU's own {label} is not within the tolerance")
        return True
    recorder.merge(trial)
    return False


def _keeps_subnormals(
    recorder: Recorder, actual_host: torch.Tensor, expected_host: torch.Tensor, label: str, index: int
) -> bool:
    lost = (actual_host == 0) & (expected_host != 0)
    text = f"{label} is zero in {int(lost.sum())} elements that must be subnormal."
    return fact(recorder, not bool(lost.any()), Kind.VALUE, text, sample=index)


def _signs_of_zeros_agree(
    recorder: Recorder, actual_host: torch.Tensor, expected_host: torch.Tensor, label: str, index: int
) -> bool:
    if not (actual_host.is_floating_point() and expected_host.is_floating_point()):
        return True
    wrong = (actual_host == 0) & (expected_host == 0) & (actual_host.signbit() != expected_host.signbit())
    text = f"{label} has {int(wrong.sum())} zeros of the wrong sign."
    return fact(recorder, not bool(wrong.any()), Kind.VALUE, text, sample=index)


def _stores_bools_as_0_or_1(recorder: Recorder, value: torch.Tensor, label: str, index: int) -> bool:
    """Check that each bool is stored as 0 or 1.

    A view as uint8 (torch.Tensor.view) shows the stored byte; a copy as bool may hide it.
    """
    stored = attempt(lambda: int(value.detach().view(torch.uint8).cpu().max()))
    if not stored.ok:
        return True
    text = f"{label} has a bool that is stored as {stored.value}, expected 0 or 1."
    return fact(recorder, stored.value <= 1, Kind.VALUE, text, sample=index)


def _keeps_special_values(
    recorder: Recorder,
    reference: OverloadReference,
    actual_host: torch.Tensor,
    expected_host: torch.Tensor,
    label: str,
) -> bool:
    """Check that NaN and infinity of the reference are not lost; they may spread to other elements."""
    recorder.compared(actual_host.numel())
    if actual_host.shape != expected_host.shape or not (
        actual_host.is_floating_point() or actual_host.is_complex()
    ):
        return True
    actual_host, expected_host = (t if t.is_complex() else t.double() for t in (actual_host, expected_host))
    lost = expected_host.isinf() & actual_host.isfinite()
    if reference.agreement is Agreement.SPECIAL_VALUES:
        lost |= expected_host.isnan() & ~actual_host.isnan()
    if not bool(lost.any()):
        return True
    position = tuple(lost.nonzero()[0].tolist())
    actual_value, expected_value = actual_host[position].item(), expected_host[position].item()
    text = f"{label} is {actual_value!r} at {list(position)}, expected {expected_value!r}."
    recorder.fail(Kind.VALUE, text, sample=reference.sample.index)
    return False
