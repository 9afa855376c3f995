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
from conformance.oracle.operators import Expected, compute, written_places
from conformance.oracle.relations import indices
from conformance.properties.operators._common import declared, tolerance_for
from conformance.properties.operators._enlarged import Enlargement, ways
from conformance.properties.overloads import _invariants
from conformance.properties.overloads._memory import FILLERS, freed_memory_of_nan, host_memory_holding
from conformance.properties.overloads._rules import rule_of
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import base_name
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
    names = calls_in(name, target, subject)
    if not subject.info.random:
        return names
    return [dtype for dtype in names if name in _OF_CERTAIN and certain_calls_of(subject, dtype).available]


#: Properties that leave a certain result certain.
_OF_CERTAIN = frozenset({"overload-forms", "overload-layouts", "overload-shapes"})


def calls_in(name: str, target: Target, subject: Subject) -> Sequence[str]:
    """Return what :func:`dtypes` returns, for overloads that draw random numbers as well."""
    idle = subject.info.idle.get(name, ())
    return [dtype for dtype in declared_calls(target, subject) if dtype not in idle]


def declared_calls(target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtypes in which some operator calls the overload, of those that the target declares."""
    able = set[str]().union(*(declared(target, find("operator", name)) for name in subject.info.operators))
    return [name for name in subject.info.dtypes if name in target.dtypes and name in able]


class Comparison(enum.Enum):
    """The part of a result's values that is compared."""

    #: Every value, within the tolerance of the operator.
    VALUES = "values"
    #: Every bit, signs of zeros included; any NaN is as good as another.
    BITS = "bits"
    #: NaN wherever the CPU has it, and infinity or NaN wherever the CPU has infinity.
    SPECIAL = "special"
    #: Infinity or NaN wherever the CPU has infinity: what becomes NaN of it depends on the algorithm.
    INFINITE = "infinite"
    #: Every value, within the tolerance, and no zero for a number of the CPU's that is below it.
    SMALL = "small"


#: Overloads that read memory by their arguments without a look at them, as their callers have looked: torch's
#: own kernels end the process for other shapes and options than those callers pass.
_TRUSTING = re.compile(
    r"_chunk_cat|_pdist|\w*batch_norm|_embedding_bag|_segment_reduce|_fft_|\w*_backward|lu_unpack"
)


#: Overloads with built calls that only operators make, without those whose kernels look at their arguments.
_OF_OPERATORS = re.compile(r"_(?!histogramdd|linalg_(svd|eigh)$|functional_assert)[^_]|.*(\.data|_jvp)$")


#: Overloads that return values and the places at which they were found.
_INDEXED = re.compile(
    r"(sort|topk|kthvalue|median|nanmedian|cummax|cummin|\w*max_pool\dd_with_indices|adaptive_max_pool\dd"
    r"|fractional_max_pool\dd)$"
)


#: Operations of IEEE 754 (5.4, 6.3), in which torch's documentation says that its devices compute.
_ARITHMETIC = re.compile(r"(add|sub|mul|div|neg|abs|sqrt)$")


def signs_zeros(name: str) -> bool:
    """Return whether the sign of a zero that an overload of that name computes is fixed."""
    return _ARITHMETIC.match(name) is not None


def trusts_its_callers(subject: Subject) -> bool:
    """Return whether only calls that operators make are calls of the overload: others are undefined."""
    overload: Overload = find(subject.kind, subject.name).info
    if overload.pointwise:
        return False
    if subject.name in calls.BUILT and _OF_OPERATORS.match(subject.name):
        return True
    return overload.backward or _TRUSTING.match(subject.name) is not None


@dataclasses.dataclass
class Answer:
    """A call on the CPU: the arguments before (``sample``) and ``after`` it, and what it returned."""

    subject: Subject
    dtype: torch.dtype
    sample: Sample
    after: Sample
    plain: Any
    comparison: Comparison = Comparison.VALUES

    @functools.cached_property
    def overload(self) -> Overload:
        """torch's own overload."""
        return torchs_own(self.subject)

    @property
    def returned(self) -> Any:
        """The results of the call, without the arguments that it wrote besides."""
        return self.plain[0] if hidden_writes(self.overload.op) else self.plain

    @property
    def signs(self) -> bool:
        """True if IEEE 754 says what sign a zero of the result has: that of arithmetic."""
        return signs_zeros(base_name(self.subject.name))

    @functools.cached_property
    def written(self) -> frozenset[int]:
        """The places of the tensors that the call changed, as ``Sample.tensors`` counts them."""
        return written_places(self.sample, self.after)

    @functools.cached_property
    def reproducible(self) -> bool:
        """True if the CPU gives the same bits again when new memory holds something else.

        Every form of the call in every layout may ask.
        """
        return gives_the_same_again(self)

    @functools.cached_property
    def rule(self) -> Rule:
        """The tolerance class, that of the operator that calls the overload."""
        return rule_of(self.subject.name, self.overload, self.dtype, self.sample)

    @functools.cached_property
    def expected(self) -> Expected:
        """The same in raised precision, with the condition of every element; computed when asked for."""
        info = self.overload
        if hidden_writes(info.op):
            info = dataclasses.replace(info, op=functools.partial(_all_results, info.op))
        expected = compute(self.subject, self.dtype, self.sample, applied=self.rule, info=info)
        same = [t.dtype for t in trees.tensors(expected.plain)] == [
            t.dtype for t in trees.tensors(self.plain)
        ]
        return expected if same else Expected(error=TypeError("the call was made in place"))

    @functools.cached_property
    def ways(self) -> Iterable[Enlargement]:
        """The ways to enlarge the call that the CPU takes; each is looked for once, when it is asked for."""
        return _Remembered(ways(self.subject, self.sample))

    @functools.cached_property
    def mattering(self) -> dict[int, bool]:
        """Places of tensors, and whether their values matter for the results, as far as that was asked."""
        return {}

    @property
    def fits_in_place(self) -> bool:
        """True if the call can be made in place."""
        return self.in_place is not None

    @functools.cached_property
    def in_place(self) -> Answer | None:
        """The answer to the call in place; None if there is no such form, or its result does not fit.

        A result of another dtype than the first argument, as those of comparisons, is converted to it.
        """
        plain, first = self.plain, self.sample.input
        tensors = isinstance(plain, torch.Tensor) and isinstance(first, torch.Tensor)
        if self.overload.in_place is None or not tensors or plain.shape != first.shape:
            return None
        if plain.dtype == first.dtype:
            return self
        host = to_host(self.sample)
        outcome = attempt(lambda: call_quietly(self.overload.in_place, host))
        if not outcome.ok:
            return None
        return dataclasses.replace(self, after=host, plain=outcome.value.detach())


class _Remembered(Iterable[Enlargement]):
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


def answer(
    subject: Subject, dtype: str, sample: Sample, comparison: Comparison = Comparison.VALUES
) -> Answer | None:
    """Return the CPU's answer to a call; None if it raises."""
    host = to_host(sample)
    outcome = attempt(lambda: call_quietly(torchs_own(subject).op, host))
    if not outcome.ok:
        return None
    returned = with_writes(torchs_own(subject).op, host, outcome.value)
    plain = trees.tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, returned)
    if any(tensor.layout is not torch.strided for tensor in trees.tensors(plain)):
        return None
    return Answer(subject, dtype_of(dtype), sample, host, plain, comparison)


def with_writes(op: Any, sample: Sample, returned: Any) -> Any:
    """Return what a call returned, with what it wrote and does not return behind it."""
    written = hidden_writes(op)
    if not written:
        return returned
    given = [sample.input, *sample.args]
    values = [
        given[position] if position < len(given) else sample.kwargs.get(name) for position, name in written
    ]
    return (returned, values)


def _all_results(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Call, and return what :func:`with_writes` does."""
    return with_writes(op, Sample(0, args[0], args[1:], kwargs), op(*args, **kwargs))


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


def torchs_own(subject: Subject) -> Overload:
    """Return torch's overload, even if a test hands in a broken one."""
    overload: Overload = find(subject.kind, subject.name).info
    return overload


def gives_the_same_again(found: Answer, part: int | None = None) -> bool:
    """Return whether the CPU gives the same bits again when new memory holds something else.

    ``part`` is the place of the only tensor of the result that is looked at. What is free may differ.
    """
    free = relations.free_parts(base_name(found.subject.name), found.sample)
    kept = []  # so that the next answer gets other memory, with other traces of the allocator in it
    sizes = [tensor.nbytes for tensor in trees.tensors(found.plain)]
    for memory in (freed_memory_of_nan(sizes), *(host_memory_holding(filler, sizes) for filler in FILLERS)):
        with memory:
            fresh = answer(found.subject, dtype_name(found.dtype), found.sample)
        if fresh is None:
            return False
        kept.append(fresh)
        pairs = list(zip(trees.tensors(found.plain), trees.tensors(fresh.plain), strict=True))
        if not all(
            same_bits(old.resolve_conj().resolve_neg(), new.resolve_conj().resolve_neg())
            for place, (old, new) in enumerate(pairs)
            if (place not in free if part is None else place == part)
        ):
            return False
    return True


def call_quietly(op: Any, sample: Sample) -> Any:
    """Call without warnings, without a graph and with the host's generator seeded."""
    with torch_testing_internals.torch_seeded(0), torch_testing_internals.quiet(), torch.no_grad():
        return sample.call(op)


#: Answers by the identities of the subject and of its calls, which are kept with them: tests hand in broken
#: subjects of one name, and whoever shrinks a failure other calls of one subject.
_kept: SubjectCache[tuple[int, int], tuple[Subject, SampleSet, list[Answer]]] = SubjectCache()


def _answered(subject: Subject, dtype: str, calls: SampleSet) -> Iterator[Answer]:
    for index in range(calls.available):
        found = answer(subject, dtype, calls[index])
        if found is not None:
            yield found


def answers(
    target: Target, subject: Subject, recorder: Recorder, limit: int, *, drawn: bool = False
) -> Iterator[Answer]:
    """Yield the answers to calls of the overload in the dtype of the result that is recorded.

    The first one can be made in place, if any can. With ``drawn`` the results may be random numbers.
    """
    dtype = recorder.id.dtype
    certain = subject.info.random and not drawn
    calls = certain_calls_of(subject, dtype) if certain else calls_of(subject, dtype)
    recorder.samples(0, calls.available)
    _, _, found = _kept.value(
        subject.name,
        (id(subject), id(calls)),
        lambda: (subject, calls, list(_answered(subject, dtype, calls))),
    )
    known = [one for one in found if is_declared(target, one)]
    known.sort(key=_is_uniform)
    fitting = max((one for one in known if one.fits_in_place), key=_worth, default=None)
    ordered = known if fitting is None else [fitting, *(one for one in known if one is not fitting)]
    for one in ordered[:limit]:
        recorder.samples(1, 0)
        yield one
    if not known:
        recorder.idle(f"no call of the overload in {dtype} has only dtypes that the target declares")


def answers_of(
    target: Target, subject: Subject, dtype: str, table: Mapping[str, calls.Built]
) -> Iterator[Answer]:
    """Yield the answers to the calls of a table that the CPU takes, if the target declares their dtypes."""
    for sample in calls.samples(subject.name, dtype, table):
        found = answer(subject, dtype, sample)
        if found is not None and is_declared(target, found):
            yield found


def is_declared(target: Target, found: Answer) -> bool:
    """Return whether the target declares every dtype that the call names, takes or returns."""
    return not undeclared_dtypes.unclaimed(target, found.sample.arguments, found.plain)


def _worth(found: Answer) -> tuple[int, int, bool]:
    """Calls of which every tensor has several elements, and these in several dimensions, are worth most."""
    tensors = found.sample.tensors()
    return (
        min(min(t.numel(), 8) for t in tensors),
        min(min(t.dim(), 2) for t in tensors),
        not _is_uniform(found),
    )


def _is_uniform(found: Answer) -> bool:
    """Return whether all results have several elements, and the same everywhere: such a call says little."""
    results = [t for t in trees.tensors(found.plain) if t.numel() > 1 and t.layout is torch.strided]
    return bool(results) and all(
        same_bits(t, t.reshape(-1)[:1].expand_as(t))
        for t in (r.resolve_conj().resolve_neg() for r in results)
    )


def agree(target: Target, recorder: Recorder, found: Answer, actual: Any, label: str) -> bool:
    """Compare a whole result with the CPU's: nesting, metadata and values.

    Values that are the CPU's own bits agree; others must be as near to the value in raised precision as the
    tolerance of the operator that calls the overload says.
    """
    index = found.sample.index
    name = base_name(found.subject.name)
    if not same_nesting(recorder, actual, found.plain, label=label, sample=index):
        return False
    good = True
    free = relations.free_parts(name, found.sample)
    free_indices = _free_indices(name, found.sample)
    parts = list(zip(trees.leaves(actual), trees.leaves(found.plain), strict=True))
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
            good &= _values(target, recorder, found, number, value, part)
        elif value.dtype == torch.bool and value.numel():
            good &= _only_zero_and_one(recorder, value, part, index)
    if good and name in _invariants.INVARIANTS:
        good = _invariants.agree(
            recorder, name, found.sample, trees.tensors(actual), trees.tensors(found.plain), label
        )
    if good and name == "mode":
        good = _is_most_frequent(recorder, found, actual, label)
    return good


def _is_most_frequent(recorder: Recorder, found: Answer, actual: Any, label: str) -> bool:
    """Of several values that appear most often mode returns any; documentation says nothing of NaN."""
    index = found.sample.index
    if found.comparison in (Comparison.SPECIAL, Comparison.INFINITE):
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
        for claim in indices.mode(parts, trees.tensors(found.plain), found.sample)
    )


def _free_indices(name: str, sample: Sample) -> frozenset[int]:
    """Places of equal values are free, and of NaN; the value that was found is not."""
    if not _INDEXED.match(name) or not isinstance(sample.input, torch.Tensor):
        return frozenset()
    plain = sample.input.detach()
    if bool(plain.isfinite().all()) and len(torch.unique(plain)) == plain.numel():
        return frozenset()
    return frozenset({1})


def _values(
    target: Target, recorder: Recorder, found: Answer, number: int, value: torch.Tensor, label: str
) -> bool:
    base = list(trees.leaves(found.plain))[number]
    index = found.sample.index
    fetched = attempt(lambda: on_host(value))
    if not fetched.ok:
        assert fetched.error is not None
        report_error(target, recorder, fetched.error, label=f"reading {label}", sample=index)
        return False
    got, want = fetched.value, on_host(base)
    if got.dtype == torch.bool and got.numel() and not _only_zero_and_one(recorder, value, label, index):
        return False
    zeros = found.signs or found.comparison is Comparison.BITS
    if got.dtype == want.dtype and same_bits(got, want, zeros=zeros):
        recorder.compared(got.numel())
        return True
    if found.comparison in (Comparison.SPECIAL, Comparison.INFINITE):
        return _special(recorder, found, got, want, label)
    applied, expected = found.rule, found.expected
    floating = base.is_floating_point() or base.is_complex()
    if not floating or applied.exact or found.comparison is Comparison.BITS:
        return compare_values(
            recorder, got, want, tolerance=EXACT, label=label, sample=index, signed_zeros=zeros
        )
    tensors = [i for i, leaf in enumerate(trees.leaves(found.plain)) if isinstance(leaf, torch.Tensor)]
    place = tensors.index(number)
    precise = trees.tensors(expected.precise)[place] if expected.ok else base
    spread = expected.spread[place] if expected.ok else None
    if spread is None and not applied.local and precise.numel():
        spread = precise.abs().to(torch.float64).mean()  # what cancels has the errors of its parts
    peer = not expected.raised_precision
    bound = tolerance_for(target, applied, base.dtype, expected.computed, expected.elements, peer=peer)
    trial, twin = recorder.trial(), recorder.trial()
    if compare_values(trial, got, precise, tolerance=bound, label=label, sample=index, spread=spread):
        recorder.absorb(trial)
        if found.comparison is Comparison.SMALL and not _none_flushed(recorder, got, want, label, index):
            return False
        return not found.signs or _zeros_agree(recorder, got, want, label, index)
    if not compare_values(twin, want, precise, tolerance=bound, label=label, sample=index, spread=spread):
        recorder.idle(f"the CPU's own {label} is not within the tolerance")
        recorder.note(f"the CPU's own {label} is not within the tolerance")
        return True
    recorder.absorb(trial)
    return False


def _none_flushed(recorder: Recorder, got: torch.Tensor, want: torch.Tensor, label: str, index: int) -> bool:
    lost = (got == 0) & (want != 0)
    text = f"{label} is zero in {int(lost.sum())} places of subnormal numbers."
    return fact(recorder, not bool(lost.any()), Kind.VALUE, text, sample=index)


def _zeros_agree(recorder: Recorder, got: torch.Tensor, want: torch.Tensor, label: str, index: int) -> bool:
    if not (got.is_floating_point() and want.is_floating_point()):
        return True
    wrong = (got == 0) & (want == 0) & (got.signbit() != want.signbit())
    text = f"{label} has {int(wrong.sum())} zeros of the wrong sign."
    return fact(recorder, not bool(wrong.any()), Kind.VALUE, text, sample=index)


def _only_zero_and_one(recorder: Recorder, value: torch.Tensor, label: str, index: int) -> bool:
    """A bool is stored as 0 or 1: torch.Tensor.view as uint8 shows it, a copy as bool may hide it."""
    stored = attempt(lambda: int(value.detach().view(torch.uint8).cpu().max()))
    if not stored.ok:
        return True
    text = f"{label} holds a bool that is stored as {stored.value}."
    return fact(recorder, stored.value <= 1, Kind.VALUE, text, sample=index)


def _special(recorder: Recorder, found: Answer, got: torch.Tensor, want: torch.Tensor, label: str) -> bool:
    """NaN and infinity of the CPU's result are not lost; how far they reach may differ."""
    recorder.compared(got.numel())
    if got.shape != want.shape or not (got.is_floating_point() or got.is_complex()):
        return True
    got, want = (t if t.is_complex() else t.double() for t in (got, want))
    lost = want.isinf() & got.isfinite()
    if found.comparison is Comparison.SPECIAL:
        lost |= want.isnan() & ~got.isnan()
    if not bool(lost.any()):
        return True
    place = tuple(lost.nonzero()[0].tolist())
    text = f"{label} is {got[place].item()!r} at {list(place)}, expected {want[place].item()!r}."
    recorder.fail(Kind.VALUE, text, sample=found.sample.index)
    return False
