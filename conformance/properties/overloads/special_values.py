"""Property: NaN, infinities, signed zeros, subnormal numbers and wide integers give the CPU's results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import torch

from conformance.framework import trees
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis
from conformance.oracle.reference import Agreement
from conformance.properties.overloads._call_forms import call_forms_of, check_call
from conformance.properties.overloads._modified_calls import (
    arguments_with_values,
    reference_of_modified_call,
    with_elements_replaced,
    with_mapped_tensors,
    with_tensor,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    dtypes_for_property,
    fixes_signs_of_zeros,
    is_unchecked,
    references,
)
from conformance.properties.shared.basis import basis_of_values
from conformance.samples.defined_inputs import NAN_IS_UNSPECIFIED
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 2
_TENSORS = 4

#: Overloads that only move values, such as ``permute`` and ``cat``, and compute no new values.
_MOVES_VALUES = re.compile(
    r"(clone|contiguous|copy|_to_copy|alias|detach|lift\w*|view\w*|_unsafe_view|reshape\w*|expand|permute|transpose"
    r"|t|squeeze|unsqueeze|slice\w*|select\w*|split\w*|unsafe_\w*|unbind|diagonal\w*|diag_embed|flip|roll|rot90|cat"
    r"|stack|_stack|gather|take|index|index_select|index_copy|index_fill|masked_fill|masked_scatter|masked_select"
    r"|where|tril|triu|repeat|unfold|constant_pad_nd|reflection_pad\dd|replication_pad\dd|_chunk_cat|fill"
    r"|pixel_\w+|native_channel_shuffle|im2col|narrow\w*|block_diag|column_stack|\w+_copy)$"
)
#: Full names of further overloads that only move values. Other overloads of ``scatter`` compute values.
_MOVES_VALUES_BY_FULL_NAME = frozenset(
    {"scatter.src", "scatter.value", "scatter_.src", "scatter_.value", "scatter.src_out", "scatter.value_out"}
)
#: Overloads that compute with integers and do not use them as indices.
_COMPUTES_WITH_INTEGERS = re.compile(
    r"(sum|nansum|cumsum|prod|cumprod|amax|amin|max|min|aminmax|argmax|argmin|argsort|cummax|cummin|any|all"
    r"|trace|_?convolution|dot|vdot|mv|mm|bmm|addmm|addmv|addr|baddbmm|addbmm|linalg_cross|sort|topk|kthvalue|median|nanmedian"
    r"|mode|isin|searchsorted|bucketize|equal|count_nonzero|unique\w*|_unique2?|\w*max_pool\dd_with_indices"
    r"|index_(add|reduce|put)|scatter\w*|put|masked_scatter|diff|hash_tensor|floor_divide)$"
)
#: Overloads that add up or multiply the floating elements of an argument.
_SUMS = re.compile(
    r"(sum|nansum|cumsum|prod|cumprod|mean|trace|dot|vdot|mv|mm|bmm|addmm|addmv|addr|baddbmm|addbmm|renorm"
    r"|index_add|scatter_add|scatter|index_put|put)$"
)
#: Overloads that round to integers. They are also called with halves (``_TIES``), which IEEE 754 rounds to
#: even integers.
_ROUNDS = re.compile(r"round|fake_quantize|_quantize")
_TIES = (0.5, 1.5, -0.5, -2.5)
#: Matches names of arguments whose integers are indices or counts.
_POSITIONS = re.compile(r"ind(ices|ex)|offset|target|lengths|repeats|sorter|.*mask$|batch_sizes|step")


#: Matches factorisations. Documentation does not specify to which elements of a factor a NaN spreads.
_FACTORISATIONS = re.compile("linalg|cholesky|geqrf")

#: Overloads that are not checked: if an argument contains NaN, torch's own kernel accesses memory outside the
#: input.
_UNSAFE = frozenset({"grid_sampler_2d_backward", "grid_sampler_3d_backward"})


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the overload."""
    if subject.name in _UNSAFE or "polynomial" in subject.name:
        return []  # intermediate values of polynomials overflow, or an integer argument is a huge degree
    return dtypes_for_property("overload-values", target, subject)


def moves_values(name: str) -> bool:
    """Return whether an overload only moves values and computes no new values.

    ``name`` may be the name of any form of the overload, such as the in-place form.
    """
    return (
        name.rpartition("::")[2] in _MOVES_VALUES_BY_FULL_NAME
        or _MOVES_VALUES.match(base_name(name)) is not None
    )


@register(
    "overload-values",
    subject_kind="overload",
    statement=(
        "NaN, infinities and subnormal numbers in any argument give the same result as on the CPU. Integers "
        "beyond 2^53 are exact. An overload that moves values keeps every bit, signs of zeros included."
    ),
    documentation="notes/numerical_accuracy.html",
    basis="parity",
    ground="No page fixes results for NaN, inf, subnormals and signed zeros in general",
    level="core",
    applies=dtypes_to_check,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call each form with special values in one argument at a time and compare with the reference."""
    for reference in references(target, subject, recorder, _LIMIT):
        recorder.allow_nothing_compared("no argument of the calls can hold a special value")
        for changed in with_special_values(target, reference):
            for form in call_forms_of(target, changed):
                with recorder.with_basis(_basis_of_special_values(changed)):
                    check_call(target, recorder, changed, form)


def _basis_of_special_values(reference: OverloadReference) -> Basis:
    """Return the basis of a call with special values. Moved values, and integers, are exact by definition."""
    if moves_values(reference.subject.name):
        return Basis.DOCUMENTED
    return basis_of_values(reference.call.name, reference.sample, reference.outputs)


def with_special_values(target: Target, reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield references of a call with special values in one argument at a time."""
    pointwise = reference.overload.pointwise
    for tensor_index, tensor in enumerate(reference.sample.tensors()[:_TENSORS]):
        if tensor.numel() == 0:
            continue
        if tensor_index == 0:
            yield from _uniform_calls(reference, tensor)
            if pointwise:
                yield from _uniformly_small_calls(target, reference)
        if tensor.is_floating_point():
            yield from _with_special_floats(target, reference, tensor_index, tensor, pointwise)
            yield from _calls_with_subnormals_and_ones(target, reference, tensor_index)
        elif tensor.is_complex() and moves_values(reference.subject.name):
            values = _special_numbers(target, tensor.dtype.to_real())
            parts = torch.view_as_real(tensor.detach().clone(memory_format=torch.contiguous_format))
            new = torch.view_as_complex(with_elements_replaced(parts, range(len(values)), values))
            yield from _yield_unless_none(
                reference_of_modified_call(
                    reference, with_tensor(reference.sample, tensor_index, new), Agreement.BITS
                )
            )
        elif tensor.dtype == torch.int64 and _is_computed_with(reference, tensor):
            for wide in calls_with_wide_integers(reference, tensor_index):
                yield from _yield_unless_none(reference_of_modified_call(reference, wide))


def _is_computed_with(reference: OverloadReference, tensor: torch.Tensor) -> bool:
    """Return whether an integer argument holds numbers to compute with, and not indices."""
    name = base_name(reference.subject.name)
    if not (
        reference.overload.pointwise
        or moves_values(reference.subject.name)
        or _COMPUTES_WITH_INTEGERS.match(name)
    ):
        return False
    if "shift" in name:
        return tensor is reference.sample.tensors()[0]  # a shift by more bits than exist is undefined
    holder = next(
        (
            a
            for a, value in arguments_with_values(reference)
            if any(t is tensor for t in trees.tensors(value))
        ),
        None,
    )
    return holder is not None and _POSITIONS.match(holder.name) is None


def calls_with_wide_integers(reference: OverloadReference, tensor_index: int) -> Iterator[Sample]:
    """Yield calls with integers that float64 rounds, alone and next to the integers that they round to."""
    tensors = reference.sample.tensors()
    tensor = tensors[tensor_index]
    positions = (0, tensor.numel() // 2 + 1)
    wide = with_tensor(
        reference.sample, tensor_index, with_elements_replaced(tensor, positions, (2**53 + 1, -(2**53) - 1))
    )
    yield wide
    for other_index, other_tensor in enumerate(tensors):
        if (
            other_index != tensor_index
            and other_tensor.dtype == torch.int64
            and _is_computed_with(reference, other_tensor)
        ):
            rounded = with_elements_replaced(other_tensor, range(other_tensor.numel()), (2**53,) * 2)
            yield with_tensor(wide, other_index, rounded)
    yield with_tensor(reference.sample, tensor_index, _integers_tied_in_float64(tensor))
    integers = [integer_tensor for integer_tensor in tensors if integer_tensor.dtype == torch.int64]
    if (
        tensor_index == 0
        and len(integers) > 1
        and all(_is_computed_with(reference, integer_tensor) for integer_tensor in integers)
    ):
        # The same number is added to every tensor, so that lower and upper bounds stay in order.
        yield with_mapped_tensors(
            reference.sample, lambda t: t + (2**53 + 1) if t.dtype == torch.int64 else t
        )


def _integers_tied_in_float64(tensor: torch.Tensor) -> torch.Tensor:
    """Return distinct integers, some of them in pairs that float64 rounds to one value.

    The smallest and the largest integer belong to such pairs. An operator that orders integers must
    distinguish the two integers of a pair. An operator that compares them in float64 sees a tie and selects
    the first, so the correct integer comes last.
    """
    count = tensor.numel()
    half = count // 2
    first, last = torch.arange(half), torch.arange(count - half - 1, -1, -1)
    low = first // 2 * 4 + (1 - first % 2)
    high = (count - last // 2) * 4 + (1 - last % 2)
    return (torch.cat([low, high]) + 2**53).reshape(tensor.shape)


def _uniform_calls(reference: OverloadReference, tensor: torch.Tensor) -> Iterator[OverloadReference]:
    """Yield references of calls whose first tensor is all 0 or all 1.

    For pointwise overloads, it is also all infinity or all NaN. Many functions return these values.
    """
    if is_unchecked(reference.subject) or reference.tolerance_rule.name == "factorisation":
        return
    values = [0.0, 1.0]
    if tensor.is_floating_point() and reference.overload.pointwise:
        values += (
            [math.inf] if base_name(reference.subject.name) in NAN_IS_UNSPECIFIED else [math.inf, math.nan]
        )
    for value in values:
        changed = reference_of_modified_call(
            reference, with_tensor(reference.sample, 0, torch.full_like(tensor, value))
        )
        if changed is not None and (math.isfinite(value) or _results_can_hold_special_values(changed)):
            yield changed


def _uniformly_small_calls(target: Target, reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield references of calls in which every element of the first tensor is -0 or one subnormal number.

    Each other floating tensor has equal elements too. In calls with larger numbers, a sum hides the sign of a
    zero, or a subnormal number.
    """
    first = reference.sample.tensors()[0]
    if not first.is_floating_point():
        return
    values = [(-0.0, -0.0), (-0.0, 0.0)] if fixes_signs_of_zeros(base_name(reference.subject.name)) else []
    if target.precision != "flush-denormals":
        small = float(torch.finfo(first.dtype).tiny) / 8
        values += [(small, small), (small, 1.0), (small, 0.0)]
    for value, other_value in values:

        def filled(
            tensor: torch.Tensor, value: float = value, other_value: float = other_value
        ) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor
            return torch.full_like(tensor, value if tensor is first else other_value)

        yield from _yield_unless_none(
            reference_of_modified_call(reference, with_mapped_tensors(reference.sample, filled))
        )


def _calls_with_subnormals_and_ones(
    target: Target, reference: OverloadReference, tensor_index: int
) -> Iterator[OverloadReference]:
    """Yield the reference of a sum or product in which one argument is subnormal.

    The other factors are ones, and the other summands are zeros.
    """
    name = base_name(reference.subject.name)
    if target.precision != "ieee" or not _SUMS.match(name):
        return
    tensors = reference.sample.tensors()
    small = float(torch.finfo(tensors[tensor_index].dtype).tiny) / 64

    def filled_with_subnormals_and_ones(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        if tensor is not tensors[tensor_index]:
            return torch.full_like(tensor, 0.0 if tensor is tensors[0] and "add" in name else 1.0)
        if "prod" in name:
            return with_elements_replaced(torch.ones_like(tensor), (tensor.numel() // 2,), (small,))
        return torch.full_like(tensor, small)

    yield from _yield_unless_none(
        reference_of_modified_call(
            reference,
            with_mapped_tensors(reference.sample, filled_with_subnormals_and_ones),
            Agreement.SUBNORMALS,
        )
    )


def _with_special_floats(
    target: Target, reference: OverloadReference, tensor_index: int, tensor: torch.Tensor, pointwise: bool
) -> Iterator[OverloadReference]:
    values = _special_numbers(target, tensor.dtype)
    if _ROUNDS.match(base_name(reference.subject.name)):
        values = [*_TIES, *values]
    if base_name(reference.subject.name) in NAN_IS_UNSPECIFIED:
        values = [value for value in values if value == value]
    if moves_values(reference.subject.name):
        count = tensor.numel()
        for positions in (range(len(values)), range(count - 1, max(-1, count - 1 - len(values)), -1)):
            new = with_elements_replaced(tensor, positions, values)
            yield from _yield_unless_none(
                reference_of_modified_call(
                    reference, with_tensor(reference.sample, tensor_index, new), Agreement.BITS
                )
            )
    elif pointwise:
        # A small tensor needs several calls for all values.
        for first in range(0, len(values), max(1, tensor.numel())):
            new = with_elements_replaced(tensor, range(tensor.numel()), values[first:])
            changed = reference_of_modified_call(reference, with_tensor(reference.sample, tensor_index, new))
            if changed is not None and _results_can_hold_special_values(changed):
                yield changed
    elif not _FACTORISATIONS.search(reference.subject.name):
        for value in (float("nan"), float("inf"), float("-inf")):
            new = with_elements_replaced(tensor, (tensor.numel() // 2,), (value,))
            agreement = Agreement.SPECIAL_VALUES if value != value else Agreement.INFINITIES
            changed = reference_of_modified_call(
                reference, with_tensor(reference.sample, tensor_index, new), agreement
            )
            if changed is not None and _results_can_hold_special_values(changed):
                yield changed


def _special_numbers(target: Target, dtype: torch.dtype) -> list[float]:
    info = torch.finfo(dtype)
    all_digits = 2 / float(info.eps) - 1
    numbers = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, all_digits, -all_digits]
    if target.precision != "flush-denormals":
        numbers += [float(info.tiny) * float(info.eps) * 3, -float(info.tiny) / 2]
    return numbers


def _yield_unless_none(changed: OverloadReference | None) -> Iterator[OverloadReference]:
    if changed is not None:
        yield changed


def _results_can_hold_special_values(changed: OverloadReference) -> bool:
    """Return whether all results are floating, complex or bool.

    The conversion of special values to an integer is undefined (torch.Tensor.to).
    """
    results = trees.tensors(changed.outputs)
    return all(t.is_floating_point() or t.is_complex() or t.dtype == torch.bool for t in results)
