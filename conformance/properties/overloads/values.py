"""NaN, infinities, signed zeros, subnormal numbers and wide integers in every argument."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import torch

from conformance.framework import trees
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.overloads._call_forms import check_call, forms_of
from conformance.properties.overloads._modified_calls import (
    arguments,
    mapped,
    reference_of_modified_call,
    seeded,
    with_tensor,
)
from conformance.properties.overloads._references import (
    Agreement,
    OverloadReference,
    dtypes,
    fixes_signs_of_zeros,
    is_unchecked,
    references,
)
from conformance.samples.defined_inputs import NAN_IS_FREE
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 2
_TENSORS = 4

#: Overloads that move values and compute none.
_MOVES = re.compile(
    r"(clone|contiguous|copy|_to_copy|alias|detach|lift\w*|view\w*|_unsafe_view|reshape\w*|expand|permute|transpose"
    r"|t|squeeze|unsqueeze|slice\w*|select\w*|split\w*|unsafe_\w*|unbind|diagonal\w*|diag_embed|flip|roll|rot90|cat"
    r"|stack|_stack|gather|take|index|index_select|index_copy|index_fill|masked_fill|masked_scatter|masked_select"
    r"|where|tril|triu|repeat|unfold|constant_pad_nd|reflection_pad\dd|replication_pad\dd|_chunk_cat|fill"
    r"|pixel_\w+|native_channel_shuffle|im2col|narrow\w*|block_diag|column_stack|\w+_copy)$"
)
#: Overloads that move values, by whole names: others of their functions compute.
_MOVING = frozenset(
    {"scatter.src", "scatter.value", "scatter_.src", "scatter_.value", "scatter.src_out", "scatter.value_out"}
)
#: Overloads of integers that compute without reading places from their argument.
_COUNTS = re.compile(
    r"(sum|nansum|cumsum|prod|cumprod|amax|amin|max|min|aminmax|argmax|argmin|argsort|cummax|cummin|any|all"
    r"|trace|_?convolution|dot|vdot|mv|mm|bmm|addmm|addmv|addr|baddbmm|addbmm|linalg_cross|sort|topk|kthvalue|median|nanmedian"
    r"|mode|isin|searchsorted|bucketize|equal|count_nonzero|unique\w*|_unique2?|\w*max_pool\dd_with_indices"
    r"|index_(add|reduce|put)|scatter\w*|put|masked_scatter|diff|hash_tensor|floor_divide)$"
)
#: Overloads that return some of their argument's values.
_SELECTS = re.compile(
    r"(amax|amin|aminmax|max|min|maximum|minimum|fmax|fmin|cummax|cummin|_cummax_helper|_cummin_helper|sort|topk"
    r"|kthvalue|median|nanmedian|mode|unique\w*|_unique2?|relu|clamp\w*|hardtanh|threshold|_index_put_impl"
    r"|index_reduce|scatter_reduce|\w*max_pool\dd\w*|max_unpool\dd|copysign|masked_\w+)$"
)
#: Overloads of floats that add up or multiply the elements of an argument.
_SUMS = re.compile(
    r"(sum|nansum|cumsum|prod|cumprod|mean|trace|dot|vdot|mv|mm|bmm|addmm|addmv|addr|baddbmm|addbmm|renorm"
    r"|index_add|scatter_add|scatter|index_put|put)$"
)
#: Overloads that round to integers: a half goes to the even one, as IEEE 754 says.
_ROUNDS = re.compile(r"round|fake_quantize|_quantize")
_TIES = (0.5, 1.5, -0.5, -2.5)
#: Arguments whose integers are places, or say how many.
_PLACES = re.compile(r"ind(ices|ex)|offset|target|lengths|repeats|sorter|.*mask$|batch_sizes|step")


#: How far a NaN reaches in a factor is free.
_FACTORS = re.compile("linalg|cholesky|geqrf")

#: NaN in their argument leads torch's own kernel out of the memory of its input.
_UNSAFE = frozenset({"grid_sampler_2d_backward", "grid_sampler_3d_backward"})


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.name in _UNSAFE or "polynomial" in subject.name:
        return []  # recurrences of polynomials overflow on the way, or take a degree of 2^53 by its word
    return dtypes("overload-values", target, subject)


def moves(name: str) -> bool:
    """Return whether an overload moves values and computes none; ``name`` is that of any form of it."""
    return name.rpartition("::")[2] in _MOVING or _MOVES.match(base_name(name)) is not None


def keeps_small_numbers(name: str) -> bool:
    """Return whether an overload moves or selects values, or is arithmetic of IEEE 754, its sum, or exp."""
    base = base_name(name)
    kept = _SUMS.match(base) or _SELECTS.match(base)
    return moves(name) or fixes_signs_of_zeros(base) or base == "exp" or kept is not None


@register(
    "overload-values",
    subject_kind="overload",
    statement=(
        "NaN, infinities and subnormal numbers in any argument give what they give on the CPU, and integers "
        "beyond 2^53 are exact; what moves values keeps every bit, signs of zeros included."
    ),
    documentation="notes/numerical_accuracy.html",
    level="core",
    applies=applies,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for reference in references(target, subject, recorder, _LIMIT):
        recorder.idle("no argument of the calls can hold such a value")
        for changed in with_special_values(target, reference):
            for form in forms_of(target, changed):
                check_call(target, recorder, changed, form)


def with_special_values(target: Target, reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield the answers to a call with special values in one argument after the other."""
    pointwise = reference.overload.pointwise
    for place, tensor in enumerate(reference.sample.tensors()[:_TENSORS]):
        if tensor.numel() == 0:
            continue
        if place == 0:
            yield from _the_same_everywhere(reference, tensor)
            if pointwise:
                yield from _small_everywhere(target, reference)
        if tensor.is_floating_point():
            yield from _floating(target, reference, place, tensor, pointwise)
            yield from _small_beside_ones(target, reference, place)
        elif tensor.is_complex() and moves(reference.subject.name):
            values = _numbers(target, tensor.dtype.to_real())
            parts = torch.view_as_real(tensor.detach().clone(memory_format=torch.contiguous_format))
            new = torch.view_as_complex(seeded(parts, range(len(values)), values))
            yield from _some(
                reference_of_modified_call(
                    reference, with_tensor(reference.sample, place, new), Agreement.BITS
                )
            )
        elif tensor.dtype == torch.int64 and _computes(reference, tensor):
            for wide in wide_integers(reference, place):
                yield from _some(reference_of_modified_call(reference, wide))


def _computes(reference: OverloadReference, tensor: torch.Tensor) -> bool:
    """Return whether an integer argument holds numbers to compute with, and not places."""
    name = base_name(reference.subject.name)
    if not (reference.overload.pointwise or moves(reference.subject.name) or _COUNTS.match(name)):
        return False
    if "shift" in name:
        return tensor is reference.sample.tensors()[0]  # no shift by more bits than there are
    holder = next(
        (a for a, value in arguments(reference) if any(t is tensor for t in trees.tensors(value))), None
    )
    return holder is not None and _PLACES.match(holder.name) is None


def wide_integers(reference: OverloadReference, place: int) -> Iterator[Sample]:
    """Yield a call with integers in one tensor that float64 rounds, alone and beside what they round to."""
    tensors = reference.sample.tensors()
    tensor = tensors[place]
    places = (0, tensor.numel() // 2 + 1)
    wide = with_tensor(reference.sample, place, seeded(tensor, places, (2**53 + 1, -(2**53) - 1)))
    yield wide
    for other, beside in enumerate(tensors):
        if other != place and beside.dtype == torch.int64 and _computes(reference, beside):
            rounded = seeded(beside, range(beside.numel()), (2**53,) * 2)
            yield with_tensor(wide, other, rounded)
    yield with_tensor(reference.sample, place, _neighbours(tensor))
    integers = [one for one in tensors if one.dtype == torch.int64]
    if place == 0 and len(integers) > 1 and all(_computes(reference, one) for one in integers):
        # In the order that they had: bounds stay bounds.
        yield mapped(reference.sample, lambda t: t + (2**53 + 1) if t.dtype == torch.int64 else t)


def _neighbours(tensor: torch.Tensor) -> torch.Tensor:
    """Return distinct integers of which float64 rounds each two to one, the least and the largest among them.

    What orders integers must tell the two apart: the right one comes last, and a tie gives the first.
    """
    count = tensor.numel()
    half = count // 2
    first, last = torch.arange(half), torch.arange(count - half - 1, -1, -1)
    low = first // 2 * 4 + (1 - first % 2)
    high = (count - last // 2) * 4 + (1 - last % 2)
    return (torch.cat([low, high]) + 2**53).reshape(tensor.shape)


def _the_same_everywhere(reference: OverloadReference, tensor: torch.Tensor) -> Iterator[OverloadReference]:
    """Yield the answers to calls whose first tensor is all 0, or all 1, and of pointwise ones all infinity or
    NaN: many functions return those.
    """
    if is_unchecked(reference.subject) or reference.rule.name == "factorisation":
        return
    values = [0.0, 1.0]
    if tensor.is_floating_point() and reference.overload.pointwise:
        values += [math.inf] if base_name(reference.subject.name) in NAN_IS_FREE else [math.inf, math.nan]
    for value in values:
        changed = reference_of_modified_call(
            reference, with_tensor(reference.sample, 0, torch.full_like(tensor, value))
        )
        if changed is not None and (math.isfinite(value) or _is_floating(changed)):
            yield changed


def _small_everywhere(target: Target, reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield the answers to calls of which all tensors of floats hold the same small number.

    Beside other numbers a sum of it shows neither the sign of a zero nor a subnormal number.
    """
    first = reference.sample.tensors()[0]
    if not first.is_floating_point():
        return
    values = [(-0.0, -0.0), (-0.0, 0.0)] if fixes_signs_of_zeros(base_name(reference.subject.name)) else []
    if target.precision != "flush-denormals":
        small = float(torch.finfo(first.dtype).tiny) / 8
        values += [(small, small), (small, 1.0), (small, 0.0)]
    for value, others in values:

        def filled(tensor: torch.Tensor, value: float = value, others: float = others) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor
            return torch.full_like(tensor, value if tensor is first else others)

        yield from _some(reference_of_modified_call(reference, mapped(reference.sample, filled)))


def _small_beside_ones(
    target: Target, reference: OverloadReference, place: int
) -> Iterator[OverloadReference]:
    """Yield the answers to a sum or a product of one argument's subnormal numbers and of ones, without what
    else is added up.
    """
    name = base_name(reference.subject.name)
    if target.precision != "ieee" or not _SUMS.match(name):
        return
    tensors = reference.sample.tensors()
    small = float(torch.finfo(tensors[place].dtype).tiny) / 64

    def filled(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        if tensor is not tensors[place]:
            return torch.full_like(tensor, 0.0 if tensor is tensors[0] and "add" in name else 1.0)
        if "prod" in name:
            return seeded(torch.ones_like(tensor), (tensor.numel() // 2,), (small,))
        return torch.full_like(tensor, small)

    yield from _some(
        reference_of_modified_call(reference, mapped(reference.sample, filled), Agreement.SUBNORMALS)
    )


def _floating(
    target: Target, reference: OverloadReference, place: int, tensor: torch.Tensor, pointwise: bool
) -> Iterator[OverloadReference]:
    values = _numbers(target, tensor.dtype)
    if _ROUNDS.match(base_name(reference.subject.name)):
        values = [*_TIES, *values]
    if base_name(reference.subject.name) in NAN_IS_FREE:
        values = [value for value in values if value == value]
    if moves(reference.subject.name):
        count = tensor.numel()
        for places in (range(len(values)), range(count - 1, max(-1, count - 1 - len(values)), -1)):
            new = seeded(tensor, places, values)
            yield from _some(
                reference_of_modified_call(
                    reference, with_tensor(reference.sample, place, new), Agreement.BITS
                )
            )
    elif pointwise:
        # One call has room for them all only if the tensor is large enough.
        for first in range(0, len(values), max(1, tensor.numel())):
            new = seeded(tensor, range(tensor.numel()), values[first:])
            changed = reference_of_modified_call(reference, with_tensor(reference.sample, place, new))
            if changed is not None and _is_floating(changed):
                yield changed
    elif not _FACTORS.search(reference.subject.name):
        for value in (float("nan"), float("inf"), float("-inf")):
            new = seeded(tensor, (tensor.numel() // 2,), (value,))
            held = Agreement.SPECIAL_VALUES if value != value else Agreement.INFINITIES
            changed = reference_of_modified_call(reference, with_tensor(reference.sample, place, new), held)
            if changed is not None and _is_floating(changed):
                yield changed


def _numbers(target: Target, dtype: torch.dtype) -> list[float]:
    info = torch.finfo(dtype)
    all_digits = 2 / float(info.eps) - 1
    numbers = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, all_digits, -all_digits]
    if target.precision != "flush-denormals":
        numbers += [float(info.tiny) * float(info.eps) * 3, -float(info.tiny) / 2]
    return numbers


def _some(changed: OverloadReference | None) -> Iterator[OverloadReference]:
    if changed is not None:
        yield changed


def _is_floating(changed: OverloadReference) -> bool:
    """Return whether the results can hold such values, or say yes or no to them.

    What a conversion to an integer makes of them is undefined (torch.Tensor.to).
    """
    results = trees.tensors(changed.outputs)
    return all(t.is_floating_point() or t.is_complex() or t.dtype == torch.bool for t in results)
