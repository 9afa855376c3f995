"""The CPU's answers to calls of overloads, and the comparison of a device's results with them."""

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
    compare_metadata,
    compare_values,
    fact,
    on_host,
    same_bits,
    same_nesting,
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
from conformance.properties.shared.dtypes import declared
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.enlarged import Enlargement, enlargements
from conformance.samples.handmade_calls import calls
from conformance.samples.operators import Sample, SampleSet, dtype_name, dtype_of
from conformance.samples.recorded_calls import calls_of, certain_calls_of
from conformance.subjects.overloads import Overload
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target


def dtypes(name: str, target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtypes in which some operator calls the overload, of those that the target declares.

    Without those in which the property ``name`` finds nothing to check. Overloads that draw random numbers
    have a property of their own; here they are called with arguments for which their result is certain.
    """
    names = dtypes_with_checks(name, target, subject)
    if not subject.info.random:
        return names
    return [
        dtype
        for dtype in names
        if name in _WITH_CERTAIN_RESULTS and certain_calls_of(subject, dtype).available
    ]


#: Properties that leave a certain result certain.
_WITH_CERTAIN_RESULTS = frozenset({"overload-forms", "overload-layouts", "overload-shapes"})


def dtypes_with_checks(name: str, target: Target, subject: Subject) -> Sequence[str]:
    """Return what :func:`dtypes` returns, for overloads that draw random numbers as well."""
    idle = subject.info.idle.get(name, ())
    return [dtype for dtype in declared_dtypes_with_calls(target, subject) if dtype not in idle]


def declared_dtypes_with_calls(target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtypes in which some operator calls the overload, of those that the target declares."""
    able = set[str]().union(*(declared(target, find("operator", name)) for name in subject.info.operators))
    return [name for name in subject.info.dtypes if name in target.dtypes and name in able]


class Agreement(enum.Enum):
    """How the values of a result must agree with the reference."""

    #: Every value, within the tolerance rule of the operator.
    TOLERANCE = "values"
    #: Every bit, signs of zeros included. Any NaN equals any other NaN.
    BITS = "bits"
    #: NaN if the CPU's value is NaN, and infinity or NaN if the CPU's value is infinite.
    SPECIAL_VALUES = "special"
    #: Infinity or NaN if the CPU's value is infinite: whether NaN results from it depends on the algorithm.
    INFINITIES = "infinite"
    #: Every value, within the tolerance rule; and not zero if the CPU's value is subnormal.
    SUBNORMALS = "small"


#: Overloads that read memory by their arguments without a look at them, as their callers have looked: torch's
#: own kernels end the process for other shapes and options than those callers pass.
_UNCHECKED = re.compile(
    r"_chunk_cat|_pdist|\w*batch_norm|_embedding_bag|_segment_reduce|_fft_|\w*_backward|lu_unpack"
)


#: Overloads with built calls that only operators make, without those whose kernels look at their arguments.
_ONLY_CALLED_BY_OPERATORS = re.compile(
    r"_(?!histogramdd|linalg_(svd|eigh)$|functional_assert)[^_]|.*(\.data|_jvp)$"
)


#: Overloads that return values and the places at which they were found.
_RETURNS_INDICES = re.compile(
    r"(sort|topk|kthvalue|median|nanmedian|cummax|cummin|\w*max_pool\dd_with_indices|adaptive_max_pool\dd"
    r"|fractional_max_pool\dd)$"
)


#: Operations of IEEE 754 (5.4, 6.3), in which torch's documentation says that its devices compute.
_ARITHMETIC = re.compile(r"(add|sub|mul|div|neg|abs|sqrt)$")


def fixes_signs_of_zeros(name: str) -> bool:
    """Return whether the sign of a zero that an overload of that name computes is fixed."""
    return _ARITHMETIC.match(name) is not None


def is_unchecked(subject: Subject) -> bool:
    """Return whether only calls that operators make are calls of the overload: others are undefined."""
    overload: Overload = find(subject.kind, subject.name).info
    if overload.pointwise:
        return False
    if subject.name in calls.BUILT and _ONLY_CALLED_BY_OPERATORS.match(subject.name):
        return True
    return overload.backward or _UNCHECKED.match(subject.name) is not None


@dataclasses.dataclass
class OverloadReference:
    """A call on the CPU: the arguments before (``sample``) and ``after`` it, and what it returned."""

    subject: Subject
    dtype: torch.dtype
    sample: Sample
    after: Sample
    outputs: Any
    agreement: Agreement = Agreement.TOLERANCE

    @functools.cached_property
    def overload(self) -> Overload:
        """torch's own overload."""
        return torch_overload(self.subject)

    @property
    def returned(self) -> Any:
        """The results of the call, without the arguments that it wrote besides."""
        return self.outputs[0] if hidden_writes(self.overload.op) else self.outputs

    @property
    def signs(self) -> bool:
        """True if IEEE 754 says what sign a zero of the result has: that of arithmetic."""
        return fixes_signs_of_zeros(base_name(self.subject.name))

    @functools.cached_property
    def written(self) -> frozenset[int]:
        """The places of the tensors that the call changed, as ``Sample.tensors`` counts them."""
        return written_tensors(self.sample, self.after)

    @functools.cached_property
    def reproducible(self) -> bool:
        """True if the CPU gives the same bits again when new memory holds something else.

        Every form of the call in every layout may ask.
        """
        return is_reproducible_on_cpu(self)

    @functools.cached_property
    def rule(self) -> Rule:
        """The tolerance class, that of the operator that calls the overload."""
        return rule_of_overload(self.subject.name, self.overload, self.dtype, self.sample)

    @functools.cached_property
    def expected(self) -> Reference:
        """The same in raised precision, with the condition of every element; computed when asked for."""
        info = self.overload
        if hidden_writes(info.op):
            info = dataclasses.replace(info, op=functools.partial(_call_with_hidden_writes, info.op))
        expected = reference_for(self.subject, self.dtype, self.sample, applied=self.rule, info=info)
        same = [t.dtype for t in trees.tensors(expected.outputs)] == [
            t.dtype for t in trees.tensors(self.outputs)
        ]
        return expected if same else Reference(error=TypeError("the call was made in place"))

    @functools.cached_property
    def ways(self) -> Iterable[Enlargement]:
        """The ways to enlarge the call that the CPU takes; each is looked for once, when it is asked for."""
        return _CachedIterable(enlargements(self.subject, self.sample))

    @functools.cached_property
    def values_that_affect_result(self) -> dict[int, bool]:
        """Places of tensors, and whether their values matter for the results, as far as that was asked."""
        return {}

    @property
    def has_in_place_reference(self) -> bool:
        """True if the call can be made in place."""
        return self.in_place is not None

    @functools.cached_property
    def in_place(self) -> OverloadReference | None:
        """The answer to the call in place; None if there is no such form, or its result does not fit.

        A result of another dtype than the first argument, as those of comparisons, is converted to it.
        """
        plain, first = self.outputs, self.sample.input
        tensors = isinstance(plain, torch.Tensor) and isinstance(first, torch.Tensor)
        if self.overload.in_place is None or not tensors or plain.shape != first.shape:
            return None
        if plain.dtype == first.dtype:
            return self
        host = to_host(self.sample)
        outcome = attempt(lambda: call_without_warnings(self.overload.in_place, host))
        if not outcome.ok:
            return None
        return dataclasses.replace(self, after=host, outputs=outcome.value.detach())


class _CachedIterable(Iterable[Enlargement]):
    """The items of an iterator, kept for the next look."""

    def __init__(self, source: Iterator[Enlargement]) -> None:
        self._source = source
        self._seen: list[Enlargement] = []

    def __iter__(self) -> Iterator[Enlargement]:
        for place in itertools.count():
            if place == len(self._seen):
                self._seen.extend(itertools.islice(self._source, 1))
            if place == len(self._seen):
                return
            yield self._seen[place]


def overload_reference(
    subject: Subject, dtype: str, sample: Sample, agreement: Agreement = Agreement.TOLERANCE
) -> OverloadReference | None:
    """Return the CPU's answer to a call; None if it raises."""
    host = to_host(sample)
    outcome = attempt(lambda: call_without_warnings(torch_overload(subject).op, host))
    if not outcome.ok:
        return None
    returned = outputs_with_hidden_writes(torch_overload(subject).op, host, outcome.value)
    plain = trees.tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, returned)
    if any(tensor.layout is not torch.strided for tensor in trees.tensors(plain)):
        return None
    return OverloadReference(subject, dtype_of(dtype), sample, host, plain, agreement)


def outputs_with_hidden_writes(op: Any, sample: Sample, returned: Any) -> Any:
    """Return what a call returned, with what it wrote and does not return behind it."""
    written = hidden_writes(op)
    if not written:
        return returned
    given = [sample.input, *sample.args]
    values = [
        given[position] if position < len(given) else sample.kwargs.get(name) for position, name in written
    ]
    return (returned, values)


def _call_with_hidden_writes(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Call, and return what :func:`with_writes` does."""
    return outputs_with_hidden_writes(op, Sample(0, args[0], args[1:], kwargs), op(*args, **kwargs))


@functools.cache
def hidden_writes(op: Any) -> Sequence[tuple[int, str]]:
    """Return position and name of the arguments that an overload writes and does not return."""
    returned = {frozenset(r.alias_info.after_set) for r in op._schema.returns if r.alias_info is not None}
    return [
        (position, argument.name)
        for position, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and frozenset(argument.alias_info.after_set) not in returned
    ]


def torch_overload(subject: Subject) -> Overload:
    """Return torch's overload, even if a test hands in a broken one."""
    overload: Overload = find(subject.kind, subject.name).info
    return overload


def is_reproducible_on_cpu(reference: OverloadReference, part: int | None = None) -> bool:
    """Return whether the CPU gives the same bits again when new memory holds something else.

    ``part`` is the place of the only tensor of the result that is looked at. What is free may differ.
    """
    free = relations.free_parts(base_name(reference.subject.name), reference.sample)
    kept = []  # so that the next answer gets other memory, with other traces of the allocator in it
    sizes = [tensor.nbytes for tensor in trees.tensors(reference.outputs)]
    for memory in (freed_memory_of_nan(sizes), *(host_memory_holding(filler, sizes) for filler in FILLERS)):
        with memory:
            fresh = overload_reference(reference.subject, dtype_name(reference.dtype), reference.sample)
        if fresh is None:
            return False
        kept.append(fresh)
        pairs = list(zip(trees.tensors(reference.outputs), trees.tensors(fresh.outputs), strict=True))
        if not all(
            same_bits(old.resolve_conj().resolve_neg(), new.resolve_conj().resolve_neg())
            for place, (old, new) in enumerate(pairs)
            if (place not in free if part is None else place == part)
        ):
            return False
    return True


def call_without_warnings(op: Any, sample: Sample) -> Any:
    """Call without warnings, without a graph and with the host's generator seeded."""
    with torch_testing_internals.torch_seeded(0), torch_testing_internals.quiet(), torch.no_grad():
        return sample.call(op)


#: Answers by the identities of the subject and of its calls, which are kept with them: tests hand in broken
#: subjects of one name, and whoever shrinks a failure other calls of one subject.
_cached_references: SubjectCache[tuple[int, int], tuple[Subject, SampleSet, list[OverloadReference]]] = (
    SubjectCache()
)


def _references_of_calls(subject: Subject, dtype: str, calls: SampleSet) -> Iterator[OverloadReference]:
    for index in range(calls.available):
        found = overload_reference(subject, dtype, calls[index])
        if found is not None:
            yield found


def references(
    target: Target, subject: Subject, recorder: Recorder, limit: int, *, drawn: bool = False
) -> Iterator[OverloadReference]:
    """Yield the answers to calls of the overload in the dtype of the result that is recorded.

    The first one can be made in place, if any can. With ``drawn`` the results may be random numbers.
    """
    dtype = recorder.id.dtype
    certain = subject.info.random and not drawn
    calls = certain_calls_of(subject, dtype) if certain else calls_of(subject, dtype)
    recorder.samples(0, calls.available)
    _, _, found = _cached_references.value(
        subject.name,
        (id(subject), id(calls)),
        lambda: (subject, calls, list(_references_of_calls(subject, dtype, calls))),
    )
    known = [one for one in found if is_declared(target, one)]
    known.sort(key=_is_uniform)
    fitting = max(
        (one for one in known if one.has_in_place_reference),
        key=_number_of_elements_and_dimensions,
        default=None,
    )
    ordered = known if fitting is None else [fitting, *(one for one in known if one is not fitting)]
    for one in ordered[:limit]:
        recorder.samples(1, 0)
        yield one
    if not known:
        recorder.idle(f"no call of the overload in {dtype} has only dtypes that the target declares")


def references_of_table(
    target: Target, subject: Subject, dtype: str, table: Mapping[str, calls.Built]
) -> Iterator[OverloadReference]:
    """Yield the answers to the calls of a table that the CPU takes, if the target declares their dtypes."""
    for sample in calls.samples(subject.name, dtype, table):
        found = overload_reference(subject, dtype, sample)
        if found is not None and is_declared(target, found):
            yield found


def is_declared(target: Target, reference: OverloadReference) -> bool:
    """Return whether the target declares every dtype that the call names, takes or returns."""
    return not undeclared_dtypes.undeclared_among(target, reference.sample.arguments, reference.outputs)


def _number_of_elements_and_dimensions(reference: OverloadReference) -> tuple[int, int, bool]:
    """Calls of which every tensor has several elements, and these in several dimensions, are worth most."""
    tensors = reference.sample.tensors()
    return (
        min(min(t.numel(), 8) for t in tensors),
        min(min(t.dim(), 2) for t in tensors),
        not _is_uniform(reference),
    )


def _is_uniform(reference: OverloadReference) -> bool:
    """Return whether all results have several elements, and the same everywhere: such a call says little."""
    results = [t for t in trees.tensors(reference.outputs) if t.numel() > 1 and t.layout is torch.strided]
    return bool(results) and all(
        same_bits(t, t.reshape(-1)[:1].expand_as(t))
        for t in (r.resolve_conj().resolve_neg() for r in results)
    )


def compare_overload_outputs(
    target: Target, recorder: Recorder, reference: OverloadReference, actual: Any, label: str
) -> bool:
    """Compare a whole result with the CPU's: nesting, metadata and values.

    Values that are the CPU's own bits agree; others must be as near to the value in raised precision as the
    tolerance of the operator that calls the overload says.
    """
    index = reference.sample.index
    name = base_name(reference.subject.name)
    if not same_nesting(recorder, actual, reference.outputs, label=label, sample=index):
        return False
    good = True
    free = relations.free_parts(name, reference.sample)
    free_indices = _unspecified_indices(name, reference.sample)
    parts = list(zip(trees.leaves(actual), trees.leaves(reference.outputs), strict=True))
    for number, (value, base) in enumerate(parts):
        if number in free:
            continue
        if not isinstance(base, torch.Tensor):
            text = f"{label} is {value!r}, expected {base!r}."
            good &= fact(recorder, value == base, Kind.VALUE, text, sample=index)
            continue
        part = label if len(parts) == 1 else f"part {number} of {label}"
        wider = number in relations.statistics(name) and base.dtype in (torch.bfloat16, torch.float16)
        if not compare_metadata(
            recorder, value, base, label=part, sample=index, device=target.torch_device, dtype=not wider
        ):
            good = False
            continue
        if name not in _invariants.INVARIANTS and name != "mode" and number not in free_indices:
            good &= _values(target, recorder, reference, number, value, part)
        elif value.dtype == torch.bool and value.numel():
            good &= _stores_bools_as_0_or_1(recorder, value, part, index)
    if good and name in _invariants.INVARIANTS:
        good = _invariants.agree(
            recorder, name, reference.sample, trees.tensors(actual), trees.tensors(reference.outputs), label
        )
    if good and name == "mode":
        good = _is_most_frequent(recorder, reference, actual, label)
    return good


def _is_most_frequent(recorder: Recorder, reference: OverloadReference, actual: Any, label: str) -> bool:
    """Of several values that appear most often mode returns any; documentation says nothing of NaN."""
    index = reference.sample.index
    if reference.agreement in (Agreement.SPECIAL_VALUES, Agreement.INFINITIES):
        return True
    parts = [on_host(part) for part in trees.tensors(actual)]
    return all(
        compare_values(
            recorder,
            claim.actual,
            claim.expected,
            tolerance=EXACT,
            label=f"{claim.label} of {label}",
            sample=index,
        )
        for claim in indices.mode(parts, trees.tensors(reference.outputs), reference.sample)
    )


def _unspecified_indices(name: str, sample: Sample) -> frozenset[int]:
    """Places of equal values are free, and of NaN; the value that was found is not."""
    if not _RETURNS_INDICES.match(name) or not isinstance(sample.input, torch.Tensor):
        return frozenset()
    plain = sample.input.detach()
    if bool(plain.isfinite().all()) and len(torch.unique(plain)) == plain.numel():
        return frozenset()
    return frozenset({1})


def _values(
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
    got, want = fetched.value, on_host(base)
    if got.dtype == torch.bool and got.numel() and not _stores_bools_as_0_or_1(recorder, value, label, index):
        return False
    zeros = reference.signs or reference.agreement is Agreement.BITS
    if got.dtype == want.dtype and same_bits(got, want, zeros=zeros):
        recorder.compared(got.numel())
        return True
    if reference.agreement in (Agreement.SPECIAL_VALUES, Agreement.INFINITIES):
        return _keeps_special_values(recorder, reference, got, want, label)
    applied, expected = reference.rule, reference.expected
    floating = base.is_floating_point() or base.is_complex()
    if not floating or applied.exact or reference.agreement is Agreement.BITS:
        return compare_values(
            recorder, got, want, tolerance=EXACT, label=label, sample=index, signed_zeros=zeros
        )
    tensors = [i for i, leaf in enumerate(trees.leaves(reference.outputs)) if isinstance(leaf, torch.Tensor)]
    place = tensors.index(number)
    precise = trees.tensors(expected.high_precision)[place] if expected.ok else base
    spread = expected.sensitivity[place] if expected.ok else None
    if spread is None and not applied.local and precise.numel():
        spread = precise.abs().to(torch.float64).mean()  # what cancels has the errors of its parts
    peer = not expected.has_high_precision
    bound = tolerance_for(target, applied, base.dtype, expected.coarsest_dtype, expected.elements, peer=peer)
    trial, twin = recorder.trial(), recorder.trial()
    if compare_values(trial, got, precise, tolerance=bound, label=label, sample=index, spread=spread):
        recorder.absorb(trial)
        if reference.agreement is Agreement.SUBNORMALS and not _keeps_subnormals(
            recorder, got, want, label, index
        ):
            return False
        return not reference.signs or _signs_of_zeros_agree(recorder, got, want, label, index)
    if not compare_values(twin, want, precise, tolerance=bound, label=label, sample=index, spread=spread):
        recorder.idle(f"the CPU's own {label} is not within the tolerance")
        recorder.note(f"the CPU's own {label} is not within the tolerance")
        return True
    recorder.absorb(trial)
    return False


def _keeps_subnormals(
    recorder: Recorder, got: torch.Tensor, want: torch.Tensor, label: str, index: int
) -> bool:
    lost = (got == 0) & (want != 0)
    text = f"{label} is zero in {int(lost.sum())} places of subnormal numbers."
    return fact(recorder, not bool(lost.any()), Kind.VALUE, text, sample=index)


def _signs_of_zeros_agree(
    recorder: Recorder, got: torch.Tensor, want: torch.Tensor, label: str, index: int
) -> bool:
    if not (got.is_floating_point() and want.is_floating_point()):
        return True
    wrong = (got == 0) & (want == 0) & (got.signbit() != want.signbit())
    text = f"{label} has {int(wrong.sum())} zeros of the wrong sign."
    return fact(recorder, not bool(wrong.any()), Kind.VALUE, text, sample=index)


def _stores_bools_as_0_or_1(recorder: Recorder, value: torch.Tensor, label: str, index: int) -> bool:
    """A bool is stored as 0 or 1: torch.Tensor.view as uint8 shows it, a copy as bool may hide it."""
    stored = attempt(lambda: int(value.detach().view(torch.uint8).cpu().max()))
    if not stored.ok:
        return True
    text = f"{label} holds a bool that is stored as {stored.value}."
    return fact(recorder, stored.value <= 1, Kind.VALUE, text, sample=index)


def _keeps_special_values(
    recorder: Recorder, reference: OverloadReference, got: torch.Tensor, want: torch.Tensor, label: str
) -> bool:
    """NaN and infinity of the CPU's result are not lost; how far they reach may differ."""
    recorder.compared(got.numel())
    if got.shape != want.shape or not (got.is_floating_point() or got.is_complex()):
        return True
    got, want = (t if t.is_complex() else t.double() for t in (got, want))
    lost = want.isinf() & got.isfinite()
    if reference.agreement is Agreement.SPECIAL_VALUES:
        lost |= want.isnan() & ~got.isnan()
    if not bool(lost.any()):
        return True
    place = tuple(lost.nonzero()[0].tolist())
    text = f"{label} is {got[place].item()!r} at {list(place)}, expected {want[place].item()!r}."
    recorder.fail(Kind.VALUE, text, sample=reference.sample.index)
    return False
