"""Scalars, up to seven dimensions, no elements, and sizes at which kernels change their ways."""

from __future__ import annotations

import itertools
import math
import time
import zlib
from collections.abc import Iterator, Sequence

import torch

from conformance.framework import trees
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.overloads._call_forms import FUNCTION, check_call, forms_of
from conformance.properties.overloads._caller_calls import SLOW, calls_of_callers
from conformance.properties.overloads._matmul_sizes import long_products
from conformance.properties.overloads._modified_calls import (
    arguments,
    in_dimensions,
    reference_of_modified_call,
    reshaped,
    with_argument,
    with_tensor,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    dtypes,
    is_declared,
    is_unchecked,
    overload_reference,
    references,
    references_of_table,
)
from conformance.properties.overloads._result_strides import hold_strides
from conformance.properties.overloads._size_assignment import assignments_for, laid
from conformance.properties.overloads.layouts import safe_on_the_cpu
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.enlarged import Enlargement
from conformance.samples.handmade_calls.large import LARGE
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 2
#: Calls that are tried if the results of the first ones do not grow.
_TO_GROW = 8
#: A call grows to so many times the size that its result is to have, at most.
_MOST_SHARE = 16
_TENSORS = 4
#: Calls with a tensor of no elements that are tried, of twice as many that the CPU takes: those first that
#: return elements.
_EMPTY = 6
_RANKS = (4, 5, 6, 7)
#: Behind a vector of 16, and above the sizes from which on kernels work in parts.
_SIZES = (17, 257, 1025, 4097, 65_537)
#: A size that each overload has in one of its dtypes, as a function alone.
_LARGEST = (1 << 20) + 1
#: How many times the last size a call has of which only some elements are returned.
_DYNAMIC = 3
#: Seconds that the calling thread may compute for a size, so that a larger one is tried: on a busy machine it
#: computes no longer.
_SECONDS = 0.02
_WAYS = 2
#: Arguments that are a number of elements, or of rows of a matrix.
_OF_MATRICES = frozenset({"n", "m", "row", "col"})
_NUMBERS = _OF_MATRICES | {"steps", "size", "minlength", "window_length"}
#: They write to places that must differ, and in a larger call they would not.
_UNIQUE = frozenset({"scatter", "index_copy", "put", "index_put"})


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return dtypes("overload-shapes", target, subject)


@register(
    "overload-shapes",
    subject_kind="overload",
    statement=(
        "Scalars, four to seven dimensions, no elements, 17 to 65,537 elements, sums of 4,097 products and "
        "batches of 513 give the CPU's results in every form; so do further sizes from 15 to 70,000, each in "
        "one dtype, form and layout, and a function of more than 2^20 elements, unless the CPU is slow at it."
    ),
    documentation="torch.html",
    level="core",
    applies=applies,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    if is_unchecked(subject):
        changes = _of_callers(target, subject, recorder.id.dtype)
    else:
        changes = _changes(target, subject, recorder)
    strided = False
    for changed in changes:
        large = trees.numel(changed.outputs) >= _LARGEST
        for form in (FUNCTION,) if large else forms_of(target, changed):
            check_call(target, recorder, changed, form)
        if not strided and any(t.dim() > 1 for t in trees.tensors(changed.outputs)):
            strided = True
            hold_strides(target, recorder, changed)
    for reference in references_of_table(target, subject, recorder.id.dtype, LARGE):
        for form in forms_of(target, reference):
            check_call(target, recorder, reference, form)
    if not is_unchecked(subject):
        _covered(target, subject, recorder)
    recorder.idle("the CPU takes the calls in no other shape")


def _changes(target: Target, subject: Subject, recorder: Recorder) -> Iterator[OverloadReference]:
    """Yield the answers to calls of other shapes."""
    known = list(references(target, subject, recorder, _TO_GROW))
    yield from _ranks(known)
    for found in known[:_LIMIT]:
        yield from scalars(found)
    nothing = list(itertools.islice(itertools.chain.from_iterable(map(empty, known)), 2 * _EMPTY))
    yield from sorted(nothing, key=lambda found: _elements(found) == 0)[:_EMPTY]
    yield from long_products(known)
    yield from next(filter(None, (list(_in_numbers(found)) for found in known[:_LIMIT])), [])
    if base_name(subject.name) in _UNIQUE:
        return
    sizes = (*_SIZES, _LARGEST) if _has_the_largest(target, subject, recorder.id.dtype) else _SIZES
    larger = next(filter(None, (list(_sizes(found, sizes)) for found in known[:_LIMIT])), [])
    yield from larger
    if larger and subject.name not in SLOW and torch.Tag.dynamic_output_shape in known[0].overload.op.tags:
        # Some elements give none in the result; of so many, enough do.
        sample = _grown([], iter(known[0].ways), _DYNAMIC * _SIZES[-1])
        changed = None if sample is None else reference_of_modified_call(known[0], sample)
        if changed is not None:
            yield changed
    if larger and not _grows(known[0], larger[-1]) and subject.name not in SLOW:
        yield from next(filter(None, (list(_sizes(found, sizes, growing=True)) for found in known)), [])


def _covered(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Hold the calls of further sizes that fall to this dtype, each in a layout and a form of its own."""
    if base_name(subject.name) in _UNIQUE:
        return
    names = dtypes("overload-shapes", target, subject)
    if recorder.id.dtype not in names:
        return
    dealt = assignments_for(subject.name, names, recorder.id.dtype)
    sizes = [one.size for one in dealt]
    known = references(target, subject, recorder, _LIMIT)
    larger = next(filter(None, (list(_sizes(found, sizes)) for found in known)), [])
    strided = target.capable("non_contiguous") and safe_on_the_cpu(subject, recorder.id.dtype)
    for one, changed in zip(dealt, larger, strict=False):
        forms = list(forms_of(target, changed))
        form = forms[one.form % len(forms)]
        with_layout = list(laid(changed, one.layout)) if strided else []
        if not any(check_call(target, recorder, changed, form, layout) for layout in with_layout):
            check_call(target, recorder, changed, form)


def _has_the_largest(target: Target, subject: Subject, dtype: str) -> bool:
    """Return whether this is the dtype in which an overload is called with most elements.

    Which of those with a result it is follows from the name, so that all dtypes come about as often.
    """
    names = sorted(dtypes("overload-shapes", target, subject))
    return bool(names) and dtype == names[zlib.crc32(subject.name.encode()) % len(names)]


def _in_numbers(reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield the answers to calls with other numbers for sizes that arguments name, as of steps and rows."""
    if reference.overload.pointwise:
        return  # its numbers are no sizes: those of polygamma are orders
    for argument, value in arguments(reference):
        if str(argument.type) not in ("int", "Optional[int]") or argument.name not in _NUMBERS:
            continue
        if value is None:
            continue
        for size in _SIZES:
            number = math.isqrt(size) + 1 if argument.name in _OF_MATRICES else size
            changed = reference_of_modified_call(reference, with_argument(reference, argument.name, number))
            if changed is not None:
                yield changed


def _grows(reference: OverloadReference, larger: OverloadReference) -> bool:
    return _elements(larger) > _elements(reference)


def _elements(reference: OverloadReference) -> int:
    return max((t.numel() for t in trees.tensors(reference.outputs)), default=0)


def _of_callers(target: Target, subject: Subject, dtype: str) -> Iterator[OverloadReference]:
    """Yield the answers to calls that operators make for larger and for empty samples of theirs."""
    for call in calls_of_callers(subject, dtype).chosen(None):
        found = overload_reference(subject, dtype, call)
        if found is not None and is_declared(target, found):
            yield found


def _ranks(known: Sequence[OverloadReference]) -> Iterator[OverloadReference]:
    for rank in _RANKS:
        deeper = next(filter(None, (in_dimensions(found, rank) for found in known)), None)
        if deeper is not None:
            yield deeper


def scalars(reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield the answer to the call with scalars for its tensors, if the CPU takes it and it has others."""
    if all(tensor.dim() == 0 or tensor.numel() == 0 for tensor in reference.sample.tensors()):
        return
    changed = reshaped(
        reference, lambda tensor: tensor.detach().reshape(-1)[0].clone() if tensor.numel() else tensor
    )
    if changed is not None:
        yield changed


def empty(reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield the answers to the call with tensors of no elements, if the CPU takes it."""
    for dimensions in ((0,), (-1,), (-2, -1)):

        def without(tensor: torch.Tensor, dimensions: tuple[int, ...] = dimensions) -> torch.Tensor:
            if tensor.dim() < len(dimensions):
                return tensor
            for dimension in dimensions:
                tensor = tensor.detach().narrow(dimension, 0, 0)
            return tensor.clone()

        changed = reshaped(reference, without)
        if changed is not None:
            yield changed
    tensors = reference.sample.tensors()
    for place, tensor in enumerate(tensors[:_TENSORS] if len(tensors) > 1 else ()):
        for dimension in (0, -1)[: tensor.dim()]:  # one among others, as torch.cat takes it
            nothing = tensor.detach().narrow(dimension, 0, 0).clone()
            changed = reference_of_modified_call(reference, with_tensor(reference.sample, place, nothing))
            if changed is not None:
                yield changed


def _sizes(
    reference: OverloadReference, sizes: Sequence[int], *, growing: bool = False
) -> Iterator[OverloadReference]:
    """Yield the answers to larger calls; with ``growing`` only to those whose result is as large."""
    known: list[Enlargement] = []
    new = (way for way in reference.ways if way.grows or not growing)
    share = (
        max(t.numel() for t in reference.sample.tensors()) // max(1, _elements(reference)) if growing else 1
    )
    for size in sizes[: 3 if reference.subject.name in SLOW else None]:
        sample = _grown(known, new, size * max(1, min(share, _MOST_SHARE)))
        if sample is None:
            return
        started = time.thread_time()
        changed = reference_of_modified_call(reference, sample)
        if changed is None:
            return
        yield changed
        if time.thread_time() - started > (20 * _SECONDS if size < _SIZES[-1] else _SECONDS):
            return


def _grown(known: list[Enlargement], new: Iterator[Enlargement], size: int) -> Sample | None:
    for way in known:
        sample = way.at(size)
        if sample is not None:
            return sample
    for way in new:
        sample = way.at(size)
        if sample is not None:
            known.append(way)
            return sample
        if len(known) >= _WAYS:
            break
    return None
