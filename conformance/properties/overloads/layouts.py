"""Property: the memory layout of an argument does not change the result, in any form of an overload."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.reference import CallForm
from conformance.properties.overloads._call_forms import (
    ArgumentLayout,
    call_forms_of,
    check_call,
)
from conformance.properties.overloads._modified_calls import (
    argument_name_at,
    arguments_with_values,
    reference_of_modified_call,
    reference_with_minimum_rank,
    values_affect_result,
    with_mapped_tensors,
    with_tensor,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    dtypes_for_property,
    is_unchecked,
    references,
)
from conformance.properties.shared.memory_layouts import (
    LAYOUTS,
    Layout,
    at_offset,
    channels_last_at_offset,
    with_equal_slices,
    with_expanded_dimension,
)
from conformance.samples.dispatched_kernels import base_name
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 8
#: The maximum number of tensors of a call that are placed in other layouts, one at a time.
_TENSORS = 16


#: Overloads that are checked only with offsets: torch's own kernels read beyond strided arguments and crash.
UNSAFE_STRIDES = frozenset({"_weight_norm_interface", "_weight_norm_interface_backward"})
#: Overloads that are not checked in uint8: torch's own kernels write outside of a strided out= and crash.
_UNSAFE_FOR_UINT8 = (
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
)


_CHANNELS_LAST = "channels_last at an offset"

#: A form, the name of a layout, and the index of the tensor with this layout. The index is None if the memory
#: that the form writes has the layout.
Combination = tuple[CallForm, str, int | None]


class LayoutCoverage:
    """The combinations (form, layout, argument) that were checked, and whether in a conclusive call.

    A call is conclusive if the values of the tensor with the layout affect the result. Each combination is
    checked in the first suitable call that the CPU accepts. If that call is not conclusive, the combination
    is checked again in the first conclusive call.
    """

    def __init__(self) -> None:
        # The keys contain the name of an argument and not its index, because the index differs between calls.
        self._checked: set[tuple[CallForm, str, str]] = set()
        self._conclusive: set[tuple[CallForm, str, str]] = set()

    def needs_check(self, combination: Combination, reference: OverloadReference) -> bool:
        """Return whether a combination must be checked in this call, after the checks of earlier calls."""
        named = _with_argument_name(combination, reference)
        if named in self._conclusive:
            return False
        return named not in self._checked or self._is_conclusive(combination, reference)

    def record_check(self, combination: Combination, reference: OverloadReference) -> None:
        """Record that a combination was checked in a call."""
        named = _with_argument_name(combination, reference)
        self._checked.add(named)
        if self._is_conclusive(combination, reference):
            self._conclusive.add(named)

    @staticmethod
    def _is_conclusive(combination: Combination, reference: OverloadReference) -> bool:
        tensor_index = combination[2]
        return tensor_index is None or values_affect_result(reference, tensor_index)


#: Overloads that write to the positions that an argument lists.
_WRITES_TO_INDICES = re.compile(r"index_(copy|put)|scatter|put|max_unpool")
#: Overloads in which the order of two writes to one position does not matter: the written values are added up
#: or are equal.
_WRITE_ORDER_IRRELEVANT = re.compile(r"scatter(_add|_reduce|\.reduce|\.value)")
#: Unchecked overloads whose integers may all be equal: pivots, target positions of gradients, offsets of bags
#: (all but the last bag are then empty), bits of random numbers, labels and lengths of sequences.
_MAY_HAVE_EQUAL_ROWS = re.compile(
    r"lu_unpack|linalg_(lu|ldl)_solve|(fractional_|adaptive_)?max_pool\dd(_with_indices)?_backward"
    r"|_embedding_bag|_sobol_engine|_ctc_loss"
)


def _with_argument_name(combination: Combination, reference: OverloadReference) -> tuple[CallForm, str, str]:
    form, layout_name, tensor_index = combination
    return form, layout_name, "" if tensor_index is None else argument_name_at(reference, tensor_index)


def cpu_kernel_is_safe(subject: Subject, dtype: str) -> bool:
    """Return whether torch's own kernel stays within the memory of strided arguments."""
    return subject.name not in UNSAFE_STRIDES and not (
        dtype == "uint8" and subject.name.startswith(_UNSAFE_FOR_UINT8)
    )


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the overload."""
    names = dtypes_for_property("overload-layouts", target, subject)
    return (
        [name for name in names if name != "uint8"] if subject.name.startswith(_UNSAFE_FOR_UINT8) else names
    )


@register(
    "overload-layouts",
    subject_kind="overload",
    statement=(
        "The layout of an argument or of a written tensor (gaps, an offset, gaps with an offset, transposed, "
        "channels_last) changes neither the result nor the memory around the tensor."
    ),
    documentation="tensor_view.html",
    basis="consistency",
    ground="The overload must give the same values for every layout of the same arguments",
    level="core",
    applies=dtypes_to_check,
    modes=("eager",),
    capabilities=("non_contiguous", "strides"),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call each form with one argument at a time in another layout and compare with the reference."""
    coverage = LayoutCoverage()
    coverage_by_values: dict[str, LayoutCoverage] = {}
    coverage_in_four_dimensions = LayoutCoverage()
    for reference in references(target, subject, recorder, _LIMIT):
        recorder.allow_nothing_compared("no tensor of the calls can have another layout")
        if subject.name in UNSAFE_STRIDES:
            for tensor_index, form in itertools.product(
                range(len(reference.sample.tensors())), call_forms_of(target, reference)
            ):
                check_call(
                    target,
                    recorder,
                    reference,
                    form,
                    ArgumentLayout(at_offset, "a storage offset", tensor_index),
                )
            continue
        _check_every_layout(target, recorder, reference, coverage)
        for values, discriminating_call in _predicate_calls_with_both_results(reference):
            _check_every_layout(
                target, recorder, discriminating_call, coverage_by_values.setdefault(values, LayoutCoverage())
            )
            _check_one_row_expanded(target, recorder, discriminating_call, coverage_by_values[values])
            _check_in_four_dimensions(target, recorder, discriminating_call, coverage_in_four_dimensions)
        _check_in_four_dimensions(target, recorder, reference, coverage)
        _check_one_row_expanded(target, recorder, reference, coverage)


def _check_every_layout(
    target: Target, recorder: Recorder, reference: OverloadReference, coverage: LayoutCoverage
) -> None:
    tensors = reference.sample.tensors()[:_TENSORS]
    fitting = {
        layout_name: _indices_of_fitting_tensors(layout, tensors) for layout_name, layout in LAYOUTS.items()
    }
    written = {
        layout_name: _indices_of_fitting_tensors(layout, trees.tensors(reference.returned))
        for layout_name, layout in LAYOUTS.items()
    }
    for form in call_forms_of(target, reference):
        for layout_name, layout in LAYOUTS.items():
            for tensor_index in fitting[layout_name]:
                if not coverage.needs_check((form, layout_name, tensor_index), reference):
                    continue
                if check_call(
                    target, recorder, reference, form, ArgumentLayout(layout, layout_name, tensor_index)
                ).is_conclusive:
                    coverage.record_check((form, layout_name, tensor_index), reference)
            if (
                form == CallForm.FUNCTION
                or not written[layout_name]
                or not coverage.needs_check((form, layout_name, None), reference)
            ):
                continue
            if check_call(target, recorder, reference, form, written_layout=layout).is_conclusive:
                coverage.record_check((form, layout_name, None), reference)


def _indices_of_fitting_tensors(layout: Layout, tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return the indices of the tensors that can have a layout."""
    return [index for index, tensor in enumerate(tensors) if layout(torch.empty_like(tensor)) is not None]


def _check_one_row_expanded(
    target: Target, recorder: Recorder, reference: OverloadReference, coverage: LayoutCoverage
) -> None:
    forms = list(call_forms_of(target, reference))
    for tensor_index in range(min(len(reference.sample.tensors()), _TENSORS)):
        if tensor_index in reference.written:
            continue  # an expanded element is written several times, in an unspecified order
        forms_to_check = [
            form
            for form in forms
            if (form, tensor_index) != (CallForm.IN_PLACE, 0)
            and coverage.needs_check((form, "expanded", tensor_index), reference)
        ]
        repeated = reference_with_equal_rows(reference, tensor_index) if forms_to_check else None
        if repeated is None:
            continue
        for form in call_forms_of(target, repeated):
            if (form, tensor_index) == (CallForm.IN_PLACE, 0) or not coverage.needs_check(
                (form, "expanded", tensor_index), repeated
            ):
                continue
            if check_call(
                target,
                recorder,
                repeated,
                form,
                ArgumentLayout(with_expanded_dimension, "one row expanded", tensor_index),
            ).is_conclusive:
                coverage.record_check((form, "expanded", tensor_index), repeated)


def _predicate_calls_with_both_results(
    reference: OverloadReference,
) -> Iterator[tuple[str, OverloadReference]]:
    """Yield references of predicates with discriminating values, and the values as text.

    For these values, the predicate returns both True and False. The values include the numbers that are
    arguments of the call, and their neighbours. Random numbers are not sufficient: all are finite and
    distinct, so a predicate would return the same result even if the device read a wrong element.
    """
    results = trees.tensors(reference.outputs)
    if not results or any(t.dtype != torch.bool for t in results) or is_unchecked(reference.subject):
        return
    first = reference.sample.tensors()[0]
    argument_values = (reference.sample.input, *reference.sample.args, *reference.sample.kwargs.values())
    numbers = sorted(
        {
            argument
            for argument in argument_values
            if type(argument) in (int, float) and math.isfinite(argument)
        }
    )
    neighbourhoods = [(number, number + 1, number - 1) for number in numbers[:2]]
    for values in (*neighbourhoods, (0, 1), (1,), (0,), (float("inf"), float("nan"), float("-inf"), 1)):
        floating = first.is_floating_point() or first.is_complex()
        if not floating and not all(map(math.isfinite, values)):
            continue

        # Each tensor begins with a different value, so that an exchange of two tensors changes the result.
        starts = itertools.count()

        def of_values(
            tensor: torch.Tensor, values: tuple[float, ...] = values, starts: Iterator[int] = starts
        ) -> torch.Tensor:
            if tensor.dtype != first.dtype:
                return tensor
            order = (torch.arange(tensor.numel()) * 7 // 3 + next(starts)) % len(values)
            return torch.tensor(values)[order].to(tensor.dtype).reshape(tensor.shape)

        changed = reference_of_modified_call(reference, with_mapped_tensors(reference.sample, of_values))
        if changed is not None:
            yield str(values), changed


def _check_in_four_dimensions(
    target: Target, recorder: Recorder, reference: OverloadReference, coverage: LayoutCoverage
) -> None:
    """Check channels_last on an enlarged call if no tensor of the call has four dimensions."""
    if is_unchecked(reference.subject) or any(tensor.dim() == 4 for tensor in reference.sample.tensors()):
        return
    deeper = reference_with_minimum_rank(reference, 4)
    if deeper is None:
        return
    for form in call_forms_of(target, deeper):
        for tensor_index, tensor in enumerate(deeper.sample.tensors()[:_TENSORS]):
            if tensor.dim() != 4 or not coverage.needs_check((form, _CHANNELS_LAST, tensor_index), deeper):
                continue
            if check_call(
                target,
                recorder,
                deeper,
                form,
                ArgumentLayout(channels_last_at_offset, _CHANNELS_LAST, tensor_index),
            ).is_conclusive:
                coverage.record_check((form, _CHANNELS_LAST, tensor_index), deeper)


def reference_with_equal_rows(reference: OverloadReference, tensor_index: int) -> OverloadReference | None:
    """Return the reference of the call with all rows of one tensor equal to its first row.

    The result is None if the CPU raises, or if equal rows make the call undefined.
    """
    tensor = reference.sample.tensors()[tensor_index]
    integral = not (tensor.is_floating_point() or tensor.is_complex())
    factors = reference.tolerance_rule.name == "factorisation"
    if factors and integral and tensor.dim() < 2:
        return None  # equal pivots may be invalid: every pivot except the last may cover two rows
    if factors and not integral:  # equal rows make a matrix singular, so make matrices of a batch equal
        batched = None if is_unchecked(reference.subject) else reference_with_minimum_rank(reference, 3)
        if batched is None or batched.sample.tensors()[tensor_index].dim() < 3:
            return None
        reference = batched
        tensor = reference.sample.tensors()[tensor_index]
    repeated = with_equal_slices(tensor)
    if repeated is None:
        return None
    if integral and tensor_index > 0:
        segments = (
            "segment_reduce" in reference.subject.name and tensor.dim() > 1
        )  # a segment reduction accepts the same lengths or offsets in each row
        may_have_equal_rows = segments or _MAY_HAVE_EQUAL_ROWS.match(reference.subject.name) is not None
        if is_unchecked(reference.subject) and not may_have_equal_rows:
            return None  # integers such as lengths and offsets must not all be equal
        values_by_name = _values_by_name(reference)
        if values_by_name.get("include_last_offset") and values_by_name.get("offsets") is tensor:
            return None  # the last offset must be the number of indices
        if _writes_to_one_position(reference, tensor):
            return None  # different values for one position, in an unspecified order
    return reference_of_modified_call(reference, with_tensor(reference.sample, tensor_index, repeated))


def _values_by_name(reference: OverloadReference) -> dict[str, Any]:
    return {argument.name: value for argument, value in arguments_with_values(reference)}


def _writes_to_one_position(reference: OverloadReference, indices: torch.Tensor) -> bool:
    """Return whether a call with equal rows of ``indices`` would write different values to one position."""
    name = reference.subject.name
    if not _WRITES_TO_INDICES.match(base_name(name)) or _WRITE_ORDER_IRRELEVANT.match(name):
        return False
    values_by_name = _values_by_name(reference)
    if not any(
        tensor is indices for key in ("index", "indices") for tensor in trees.tensors(values_by_name.get(key))
    ):
        return False
    if values_by_name.get("accumulate"):
        return False
    along = next(dimension for dimension, size in enumerate(indices.shape) if size > 1)
    dim = values_by_name.get("dim")
    return dim is None or indices.dim() < 2 or dim % indices.dim() == along
