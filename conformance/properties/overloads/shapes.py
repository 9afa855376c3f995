"""Property: calls in other shapes give the CPU's results.

The shapes are scalars, up to seven dimensions, zero elements, and sizes at which kernels change algorithms.
"""

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
from conformance.oracle.reference import CallForm
from conformance.properties.overloads._call_forms import call_forms_of, check_call
from conformance.properties.overloads._calls_of_unchecked_overloads import SLOW, larger_and_empty_calls
from conformance.properties.overloads._matmul_sizes import (
    references_of_long_matrix_products,
    references_of_whole_number_sums,
)
from conformance.properties.overloads._modified_calls import (
    arguments_with_values,
    reference_of_modified_call,
    reference_with_changed_tensors,
    reference_with_minimum_rank,
    with_argument,
    with_tensor,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    dtypes_for_property,
    has_only_declared_dtypes,
    is_unchecked,
    overload_reference,
    references,
    references_of_handmade_calls,
)
from conformance.properties.overloads._result_strides import check_strides
from conformance.properties.overloads._size_assignment import assignments_for, layout_of_largest_tensor
from conformance.properties.overloads.layouts import cpu_kernel_is_safe
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.enlarged import Enlargement
from conformance.samples.handmade_calls.large import LARGE_CALLS
from conformance.samples.operators import Sample
from conformance.samples.sizes import GRID, GROUP, LARGEST, SPLIT, VECTOR, draw_sizes
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 2
#: Number of calls that are tried if enlarged arguments do not enlarge the results of the first calls.
_CANDIDATES = 8
#: The arguments grow to at most this multiple of the intended size of the result.
_MAX_GROWTH = 16
_TENSORS = 4
#: Number of calls with an empty tensor. They are selected from twice as many calls that the CPU accepts.
#: Calls whose result has elements come first.
_EMPTY_CALLS = 6
_RANKS = (4, 5, 6, 7)
#: The distributions from which the numbers of elements of each overload and dtype are drawn.
_SIZE_DISTRIBUTIONS = (VECTOR, GROUP, SPLIT, GRID)
#: Each overload is called as a function with more elements than this, in one of its dtypes.
_LARGEST_SIZE = 1 << 20
#: If an overload returns only some of the elements of its arguments, the arguments are enlarged to this
#: multiple of the largest size.
_DYNAMIC_FACTOR = 3
#: Slow overloads are called with fewer elements than this.
_SLOW_LIMIT = 2000
#: The largest size is tried only if the calling thread used at most this number of seconds of CPU time for
#: the previous size; other sizes, 20 times this number. CPU time does not depend on the load of the machine.
_MAX_SECONDS = 0.02
_MAX_ENLARGEMENTS = 2
#: Arguments that are numbers of rows or columns of a matrix.
_MATRIX_SIZE_ARGUMENTS = frozenset({"n", "m", "row", "col"})
_SIZE_ARGUMENTS = _MATRIX_SIZE_ARGUMENTS | {"steps", "size", "minlength", "window_length"}
#: Overloads that, by documentation, broadcast an argument although they are not pointwise.
_BROADCASTS = frozenset(
    {
        *("addmm", "addmv", "addr", "addbmm", "baddbmm", "index_put", "masked_scatter", "masked_select"),
        "linalg_cross",
    }
)
#: Overloads that write to indices that must differ; in a larger call, indices would repeat.
_NEEDS_UNIQUE_INDICES = frozenset({"scatter", "index_copy", "put", "index_put"})
#: Pairs of overload and dtype that stay small, because they draw a random number per element. In float16,
#: torch's multinomial rounds one of 3e7 draws to zero and then selects an index of weight zero.
_SMALL_IN_DTYPE = frozenset({("multinomial", "float16")})


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the overload."""
    return dtypes_for_property("overload-shapes", target, subject)


@register(
    "overload-shapes",
    subject_kind="overload",
    statement=(
        "Scalars, operands that are broadcast, four to seven dimensions, zero elements, sizes up to 71,536 "
        "elements, sums of thousands of products and large batches give the CPU's results in every form. So "
        "do further sizes, each in one dtype, form and layout, and the function on more than 2^20 elements, "
        "unless the CPU is slow."
    ),
    documentation="torch.html",
    level="core",
    applies=dtypes_to_check,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call each form on reshaped, enlarged and empty samples and compare with the reference."""
    if is_unchecked(subject):
        changes = _references_of_larger_and_empty_calls(target, subject, recorder.id.dtype)
    else:
        changes = _reshaped_calls(target, subject, recorder)
    strided = False
    for changed in changes:
        large = trees.numel(changed.outputs) > _LARGEST_SIZE
        for form in (CallForm.FUNCTION,) if large else call_forms_of(target, changed):
            check_call(target, recorder, changed, form)
        if not strided and any(t.dim() > 1 for t in trees.tensors(changed.outputs)):
            strided = True
            check_strides(target, recorder, changed)
    for reference in references_of_handmade_calls(target, subject, recorder.id.dtype, LARGE_CALLS):
        for form in call_forms_of(target, reference):
            check_call(target, recorder, reference, form)
    if not is_unchecked(subject):
        _check_assigned_sizes(target, subject, recorder)
    recorder.allow_nothing_compared("the CPU rejects the calls in all other shapes")


def _reshaped_calls(target: Target, subject: Subject, recorder: Recorder) -> Iterator[OverloadReference]:
    """Yield references of calls in other shapes."""
    calls = list(references(target, subject, recorder, _CANDIDATES))
    yield from _with_more_dimensions(calls)
    for reference in calls[:_LIMIT]:
        yield from calls_with_scalar_tensors(reference)
        yield from with_one_operand_broadcast(reference)
    empty_calls = list(
        itertools.islice(itertools.chain.from_iterable(map(with_empty_tensors, calls)), 2 * _EMPTY_CALLS)
    )
    yield from sorted(empty_calls, key=lambda reference: _largest_output_size(reference) == 0)[:_EMPTY_CALLS]
    yield from references_of_long_matrix_products(calls)
    yield from next(
        filter(None, (list(_with_other_size_arguments(reference)) for reference in calls[:_LIMIT])), []
    )
    if _must_stay_small(subject, recorder.id.dtype):
        return
    sizes = sorted(draw_sizes(f"{subject.name} {recorder.id.dtype}", _SIZE_DISTRIBUTIONS))
    largest_of_every_dtype = sizes[-1]
    if _is_dtype_of_largest_size(target, subject, recorder.id.dtype):
        sizes += draw_sizes(subject.name, (LARGEST,))
    larger = next(
        filter(None, (list(_larger_references(reference, sizes)) for reference in calls[:_LIMIT])), []
    )
    yield from larger
    yield from references_of_whole_number_sums(larger)
    if larger and subject.name not in SLOW and torch.Tag.dynamic_output_shape in calls[0].overload.op.tags:
        # The result contains only some elements of the arguments, so a large result needs larger arguments.
        sample = _enlarged_sample([], iter(calls[0].enlargements), _DYNAMIC_FACTOR * largest_of_every_dtype)
        changed = None if sample is None else reference_of_modified_call(calls[0], sample)
        if changed is not None:
            yield changed
    if larger and not _has_larger_output(calls[0], larger[-1]) and subject.name not in SLOW:
        yield from next(
            filter(None, (list(_larger_references(reference, sizes, growing=True)) for reference in calls)),
            [],
        )


def _check_assigned_sizes(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check calls in the sizes that are assigned to this dtype (:mod:`._size_assignment`).

    Each size is checked in its assigned layout and form.
    """
    if _must_stay_small(subject, recorder.id.dtype):
        return
    names = dtypes_for_property("overload-shapes", target, subject)
    if recorder.id.dtype not in names:
        return
    assignments = assignments_for(subject.name, names, recorder.id.dtype)
    sizes = [assignment.size for assignment in assignments]
    calls = references(target, subject, recorder, _LIMIT)
    larger = next(filter(None, (list(_larger_references(reference, sizes)) for reference in calls)), [])
    strided = target.has_arbitrary_strides and cpu_kernel_is_safe(subject, recorder.id.dtype)
    for assignment, changed in zip(assignments, larger, strict=False):
        forms = list(call_forms_of(target, changed))
        form = forms[assignment.form % len(forms)]
        layouts = list(layout_of_largest_tensor(changed, assignment.layout)) if strided else []
        if not any(check_call(target, recorder, changed, form, layout).is_conclusive for layout in layouts):
            check_call(target, recorder, changed, form)


def _must_stay_small(subject: Subject, dtype: str) -> bool:
    name = base_name(subject.name)
    return name in _NEEDS_UNIQUE_INDICES or (name, dtype) in _SMALL_IN_DTYPE


def _is_dtype_of_largest_size(target: Target, subject: Subject, dtype: str) -> bool:
    """Return whether this is the dtype in which the overload is called with the largest size.

    The overload's name selects the dtype, so that over all overloads each dtype is selected about as often.
    """
    names = sorted(dtypes_for_property("overload-shapes", target, subject))
    return bool(names) and dtype == names[zlib.crc32(subject.name.encode()) % len(names)]


def _with_other_size_arguments(reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield references of calls with other values for size arguments, such as numbers of steps or rows."""
    if reference.overload.pointwise:
        return  # numbers of a pointwise overload are not sizes: polygamma's n is an order
    for argument, value in arguments_with_values(reference):
        if str(argument.type) not in ("int", "Optional[int]") or argument.name not in _SIZE_ARGUMENTS:
            continue
        if value is None:
            continue
        for size in sorted(draw_sizes(f"{argument.name} of {reference.subject.name}", _SIZE_DISTRIBUTIONS)):
            number = math.isqrt(size) + 1 if argument.name in _MATRIX_SIZE_ARGUMENTS else size
            changed = reference_of_modified_call(reference, with_argument(reference, argument.name, number))
            if changed is not None:
                yield changed


def _has_larger_output(reference: OverloadReference, larger: OverloadReference) -> bool:
    return _largest_output_size(larger) > _largest_output_size(reference)


def _largest_output_size(reference: OverloadReference) -> int:
    return max((t.numel() for t in trees.tensors(reference.outputs)), default=0)


def _references_of_larger_and_empty_calls(
    target: Target, subject: Subject, dtype: str
) -> Iterator[OverloadReference]:
    """Yield references of the calls that operators make for larger and for empty samples."""
    for call in larger_and_empty_calls(subject, dtype).chosen(None):
        reference = overload_reference(subject, dtype, call)
        if reference is not None and has_only_declared_dtypes(target, reference):
            yield reference


def _with_more_dimensions(calls: Sequence[OverloadReference]) -> Iterator[OverloadReference]:
    for rank in _RANKS:
        deeper = next(
            filter(None, (reference_with_minimum_rank(reference, rank) for reference in calls)), None
        )
        if deeper is not None:
            yield deeper


def calls_with_scalar_tensors(reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield the reference of the call with scalars in place of its tensors, if the CPU accepts the call.

    Calls whose tensors are all scalars or empty are skipped.
    """
    if all(tensor.dim() == 0 or tensor.numel() == 0 for tensor in reference.sample.tensors()):
        return
    changed = reference_with_changed_tensors(
        reference, lambda tensor: tensor.detach().reshape(-1)[0].clone() if tensor.numel() else tensor
    )
    if changed is not None:
        yield changed


def with_one_operand_broadcast(reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield references of the call with one tensor that the CPU broadcasts: its first or its last dimension
    has size 1, or its first dimension is missing. The shapes of the results stay the same.

    Only overloads that broadcast their arguments are changed: other kernels of torch may read beyond a tensor
    that is too small.
    """
    overload, name = reference.overload, base_name(reference.subject.name)
    # Autograd passes gradients of the result's shape, so backward overloads need not broadcast.
    if not (overload.pointwise or name in _BROADCASTS) or overload.backward or "backward" in name:
        return
    tensors = reference.sample.tensors()
    shapes = [result.shape for result in trees.tensors(reference.outputs)]
    for tensor_index, tensor in enumerate(tensors[:_TENSORS] if len(tensors) > 1 else ()):
        if tensor.dim() == 0 or tensor.numel() < 2:
            continue
        values = tensor.detach()
        for smaller in (values.narrow(0, 0, 1), values.narrow(-1, 0, 1), values[0]):
            if smaller.shape == tensor.shape:
                continue
            changed = reference_of_modified_call(
                reference, with_tensor(reference.sample, tensor_index, smaller.clone())
            )
            if changed is not None and shapes == [r.shape for r in trees.tensors(changed.outputs)]:
                yield changed


def with_empty_tensors(reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield references of calls in which all or some of the tensors have zero elements.

    Calls that the CPU rejects are skipped.
    """
    for dimensions in ((0,), (-1,), (-2, -1)):

        def without(tensor: torch.Tensor, dimensions: tuple[int, ...] = dimensions) -> torch.Tensor:
            if tensor.dim() < len(dimensions):
                return tensor
            for dimension in dimensions:
                tensor = tensor.detach().narrow(dimension, 0, 0)
            return tensor.clone()

        changed = reference_with_changed_tensors(reference, without)
        if changed is not None:
            yield changed
    tensors = reference.sample.tensors()
    for tensor_index, tensor in enumerate(tensors[:_TENSORS] if len(tensors) > 1 else ()):
        for dimension in (0, -1)[: tensor.dim()]:  # one empty tensor: torch.cat, for example, accepts it
            nothing = tensor.detach().narrow(dimension, 0, 0).clone()
            changed = reference_of_modified_call(
                reference, with_tensor(reference.sample, tensor_index, nothing)
            )
            if changed is not None:
                yield changed


def _larger_references(
    reference: OverloadReference, sizes: Sequence[int], *, growing: bool = False
) -> Iterator[OverloadReference]:
    """Yield references of the call, enlarged to each size; with ``growing``, the results grow too."""
    enlargements: list[Enlargement] = []
    untried = (enlargement for enlargement in reference.enlargements if enlargement.grows or not growing)
    share = (
        max(t.numel() for t in reference.sample.tensors()) // max(1, _largest_output_size(reference))
        if growing
        else 1
    )
    tried = [size for size in sizes if size < _SLOW_LIMIT or reference.subject.name not in SLOW]
    for size, next_size in itertools.zip_longest(tried, tried[1:], fillvalue=0):
        sample = _enlarged_sample(enlargements, untried, size * max(1, min(share, _MAX_GROWTH)))
        if sample is None:
            return
        started = time.thread_time()
        changed = reference_of_modified_call(reference, sample)
        if changed is None:
            return
        yield changed
        limit = _MAX_SECONDS if next_size > _LARGEST_SIZE else 20 * _MAX_SECONDS
        if time.thread_time() - started > limit:
            return


def _enlarged_sample(
    enlargements: list[Enlargement], untried: Iterator[Enlargement], size: int
) -> Sample | None:
    """Return the sample enlarged to ``size`` by the first enlargement that succeeds, or None.

    Enlargements from ``untried`` that succeed are added to ``enlargements``.
    """
    for enlargement in enlargements:
        sample = enlargement.enlarge_sample(size)
        if sample is not None:
            return sample
    for enlargement in untried:
        sample = enlargement.enlarge_sample(size)
        if sample is not None:
            enlargements.append(enlargement)
            return sample
        if len(enlargements) >= _MAX_ENLARGEMENTS:
            break
    return None
