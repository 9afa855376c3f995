"""The references of overload calls: their CPU results, and the calls and dtypes that properties check."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees, undeclared_dtypes
from conformance.framework.calls import attempt
from conformance.framework.compare import same_bits
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import Rule
from conformance.oracle.overload_tolerance import rule_of_overload
from conformance.oracle.reference import (
    Agreement,
    Call,
    HighPrecision,
    Reference,
    high_precision_of,
    seed_of_call,
    written_tensors,
)
from conformance.properties.shared.dtypes import declared_dtypes
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import to_host
from conformance.samples.enlarged import Enlargement, enlargements
from conformance.samples.handmade_calls import calls
from conformance.samples.operators import Sample, SampleSet, dtype_name, dtype_of
from conformance.samples.recorded_calls import calls_of, deterministic_calls_of
from conformance.subjects.overloads import Overload
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target


def dtypes_for_property(property_name: str, target: Target, subject: Subject) -> Sequence[str]:
    """Return the target's declared dtypes in which some operator calls the overload.

    Dtypes in which the property ``property_name`` has nothing to check are omitted. If the overload draws
    random numbers, only dtypes are returned in which some call has a deterministic result. The property
    ``overload-random`` checks the calls with random results.
    """
    dtype_names = dtypes_including_random_calls(property_name, target, subject)
    if not subject.info.random:
        return dtype_names
    return [
        dtype
        for dtype in dtype_names
        if property_name in _WITH_CERTAIN_RESULTS and deterministic_calls_of(subject, dtype).available
    ]


#: Properties that also check overloads that draw random numbers. These properties use only calls with a
#: deterministic result, and their modified calls are deterministic too.
_WITH_CERTAIN_RESULTS = frozenset({"overload-forms", "overload-layouts", "overload-shapes"})


def dtypes_including_random_calls(property_name: str, target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtypes of :func:`dtypes_for_property` without the restriction for overloads that draw random
    numbers.
    """
    idle = subject.info.idle.get(property_name, ())
    return [dtype for dtype in declared_dtypes_with_calls(target, subject) if dtype not in idle]


def declared_dtypes_with_calls(target: Target, subject: Subject) -> Sequence[str]:
    """Return the target's declared dtypes in which some operator calls the overload."""
    able = set[str]().union(
        *(declared_dtypes(target, find("operator", name)) for name in subject.info.operators)
    )
    return [name for name in subject.info.dtypes if name in target.dtypes and name in able]


#: Overloads that read memory by their arguments without validating them. The callers of these overloads
#: validate the arguments. torch's own kernels crash for shapes and options that the callers do not pass.
_UNCHECKED = re.compile(
    r"_chunk_cat|_pdist|\w*batch_norm|_embedding_bag|_segment_reduce|_fft_|\w*_backward|lu_unpack"
)


#: Matches names of overloads that only operators call. An overload with such a name and with handmade calls
#: is unchecked. Overloads whose kernels validate their arguments are excluded.
_ONLY_CALLED_BY_OPERATORS = re.compile(
    r"_(?!histogramdd|linalg_(svd|eigh)$|functional_assert)[^_]|.*(\.data|_jvp)$"
)


#: Operations of IEEE 754 (5.4, 6.3). torch's documentation says that its devices compute by that standard.
_ARITHMETIC = re.compile(r"(add|sub|mul|div|neg|abs|sqrt)$")


def fixes_signs_of_zeros(name: str) -> bool:
    """Return whether IEEE 754 fixes the sign of a zero that the overload computes."""
    return _ARITHMETIC.match(name) is not None


def is_unchecked(subject: Subject) -> bool:
    """Return whether the overload reads memory by its arguments without validating them.

    The result of an unchecked overload is defined only for calls that operators make.
    """
    overload: Overload = find(subject.kind, subject.name).info
    if overload.pointwise:
        return False
    if subject.name in calls.HANDMADE_CALLS and _ONLY_CALLED_BY_OPERATORS.match(subject.name):
        return True
    return overload.backward or _UNCHECKED.match(subject.name) is not None


@dataclasses.dataclass
class OverloadReference(Reference):
    """The CPU's outcome of a call of an overload.

    For an overload that writes arguments without returning them, ``outputs`` is the pair (results, written
    arguments).
    """

    @functools.cached_property
    def overload(self) -> Overload:
        """torch's own overload, even if a test passes a broken subject."""
        return torch_overload(self.subject)

    @property
    def returned(self) -> Any:
        """The results of the call without the arguments that it wrote but did not return."""
        return self.outputs[0] if arguments_written_but_not_returned(self.overload.op) else self.outputs

    @property
    def fixes_signs_of_zeros(self) -> bool:
        """True if IEEE 754 fixes the sign of a zero in the result, as it does for arithmetic."""
        return fixes_signs_of_zeros(self.call.name)

    @functools.cached_property
    def tolerance_rule(self) -> Rule:
        """The tolerance rule of the operator that calls the overload."""
        return rule_of_overload(self.subject.name, self.overload, self.dtype, self.sample)

    @functools.cached_property
    def sensitivity(self) -> list[torch.Tensor | None]:
        """The sensitivity of each output tensor.

        The rounding errors of a sum have the size of its terms, even if the terms cancel. If an output has no
        sensitivity, the mean magnitude of its high-precision values is therefore used as the sensitivity.
        """
        sensitivities = super().sensitivity
        if self.tolerance_rule.local:
            return sensitivities
        return [
            values.abs().to(torch.float64).mean()
            if sensitivity is None and values.numel() and (values.is_floating_point() or values.is_complex())
            else sensitivity
            for sensitivity, values in zip(sensitivities, trees.tensors(self.high_precision), strict=True)
        ]

    def recompute(self) -> Reference:
        """Return the reference of the same call, computed again."""
        again = overload_reference(self.subject, dtype_name(self.dtype), self.sample)
        return again or Reference(self.call, error=RuntimeError("the CPU raised"))

    @functools.cached_property
    def enlargements(self) -> Iterable[Enlargement]:
        """The enlargements of the call that the CPU accepts; each is computed once, on first access."""
        return _CachedIterable(enlargements(self.subject, self.sample))

    @functools.cached_property
    def values_that_affect_result(self) -> dict[int, bool]:
        """A cache that maps the index of a tensor to True if other values of the tensor change the result."""
        return {}

    @property
    def has_in_place_reference(self) -> bool:
        """True if the call has a reference for its in-place form."""
        return self.in_place is not None

    @functools.cached_property
    def in_place(self) -> OverloadReference | None:
        """The reference of the in-place form of the call.

        None if the overload has no in-place form, or if the result and the first argument have different
        shapes. A result of a different dtype, such as the result of a comparison, is converted to
        the dtype of the first argument.
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
        return dataclasses.replace(
            self,
            outputs=outcome.value.detach(),
            written=written_tensors(self.sample, host),
            compute_high_precision=None,
        )


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
    host, overload = to_host(sample), torch_overload(subject)
    outcome = attempt(lambda: call_without_warnings(overload.op, host))
    if not outcome.ok:
        return None
    returned = outputs_with_unreturned_writes(overload.op, host, outcome.value)
    outputs = trees.tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, returned)
    if any(tensor.layout is not torch.strided for tensor in trees.tensors(outputs)):
        return None
    call = Call(subject, dtype_of(dtype), sample)
    info: Any = overload
    if arguments_written_but_not_returned(overload.op):
        call_with_writes = functools.partial(_call_with_unreturned_writes, overload.op)
        functools.update_wrapper(call_with_writes, overload.op, assigned=(), updated=())
        info = dataclasses.replace(overload, op=call_with_writes)

    def compute_high_precision() -> HighPrecision:
        tolerance_rule = rule_of_overload(subject.name, overload, call.dtype, sample)
        return high_precision_of(outputs, info, sample, call.dtype, tolerance_rule, seed_of_call(call))

    return OverloadReference(
        call,
        outputs,
        written=written_tensors(sample, host),
        agreement=agreement,
        compute_high_precision=compute_high_precision,
    )


def outputs_with_unreturned_writes(op: Any, sample: Sample, returned: Any) -> Any:
    """Return the outputs of a call followed by the arguments that it wrote but did not return."""
    written = arguments_written_but_not_returned(op)
    if not written:
        return returned
    arguments = [sample.input, *sample.args]
    values = [
        arguments[position] if position < len(arguments) else sample.kwargs.get(name)
        for position, name in written
    ]
    return (returned, values)


def _call_with_unreturned_writes(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Call an operator and return the result of :func:`outputs_with_unreturned_writes`."""
    return outputs_with_unreturned_writes(op, Sample(0, args[0], args[1:], kwargs), op(*args, **kwargs))


@functools.cache
def arguments_written_but_not_returned(op: Any) -> Sequence[tuple[int, str]]:
    """Return (position, name) of each argument that an overload writes but does not return."""
    returned = {frozenset(r.alias_info.after_set) for r in op._schema.returns if r.alias_info is not None}
    return [
        (position, argument.name)
        for position, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and frozenset(argument.alias_info.after_set) not in returned
    ]


def torch_overload(subject: Subject) -> Overload:
    """Return torch's own overload, even if a test passes a broken subject."""
    overload: Overload = find(subject.kind, subject.name).info
    return overload


def call_without_warnings(op: Any, sample: Sample) -> Any:
    """Call an operator with warnings silenced, without gradients and with the host's generator seeded."""
    with torch_testing_internals.torch_seeded(0), torch_testing_internals.silence_warnings(), torch.no_grad():
        return sample.call(op)


#: Cached references. The key consists of the ``id`` of the subject and the ``id`` of its calls, because tests
#: pass broken subjects of the same name, and shrinking passes other calls of the same subject. The entry
#: holds both objects, so that their ids are not reused.
_cached_references: SubjectCache[tuple[int, int], tuple[Subject, SampleSet, list[OverloadReference]]] = (
    SubjectCache()
)


def _references_of_calls(subject: Subject, dtype: str, calls: SampleSet) -> Iterator[OverloadReference]:
    for index in range(calls.available):
        reference = overload_reference(subject, dtype, calls[index])
        if reference is not None:
            yield reference


def references(
    target: Target, subject: Subject, recorder: Recorder, limit: int, *, include_random_calls: bool = False
) -> Iterator[OverloadReference]:
    """Yield references of the overload's calls in the dtype of the recorded result, ``limit`` at most.

    A call that can be made in place comes first if one exists. If the overload draws random numbers, only
    calls with a deterministic result are used, unless ``include_random_calls`` is set.
    """
    dtype = recorder.id.dtype
    certain = subject.info.random and not include_random_calls
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
        key=_size_sort_key,
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


def references_of_handmade_calls(
    target: Target, subject: Subject, dtype: str, table: Mapping[str, calls.HandmadeCalls]
) -> Iterator[OverloadReference]:
    """Yield references of a table's calls if the CPU accepts them and the target declares their dtypes."""
    for sample in calls.handmade_samples(subject.name, dtype, table):
        reference = overload_reference(subject, dtype, sample)
        if reference is not None and has_only_declared_dtypes(target, reference):
            yield reference


def has_only_declared_dtypes(target: Target, reference: OverloadReference) -> bool:
    """Return whether the target declares every dtype of the call's arguments and outputs."""
    return not undeclared_dtypes.undeclared_among(target, reference.sample.arguments, reference.outputs)


def _size_sort_key(reference: OverloadReference) -> tuple[int, int, bool]:
    """Return a sort key that prefers tensors with several elements in several dimensions."""
    tensors = reference.sample.tensors()
    return (
        min(min(t.numel(), 8) for t in tensors),
        min(min(t.dim(), 2) for t in tensors),
        not _has_uniform_outputs(reference),
    )


def _has_uniform_outputs(reference: OverloadReference) -> bool:
    """Return whether each output with several elements has the same value everywhere.

    Such a call detects few faults, because an element at a wrong position has the correct value.
    """
    results = [t for t in trees.tensors(reference.outputs) if t.numel() > 1 and t.layout is torch.strided]
    return bool(results) and all(
        same_bits(t, t.reshape(-1)[:1].expand_as(t))
        for t in (r.resolve_conj().resolve_neg() for r in results)
    )
