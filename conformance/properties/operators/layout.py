"""Property: the positions of elements in memory do not change the result."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import rule
from conformance.oracle.reference import Call, reference_for
from conformance.properties.operators._transformed_samples import (
    DEFINED_BY_MEMORY,
    check_transformed_sample,
    with_transformed_tensors,
)
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.properties.shared.execution import samples_with_references
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 6
_DTYPES = ("float32", "int64", "complex64", "bool", "bfloat16", "float64")


def with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy in which every second element of the memory is unused and filled with one."""
    if tensor.numel() < 1 or tensor.dim() == 0:
        return tensor
    base = torch.ones((*tensor.shape, 2), dtype=tensor.dtype)
    base[..., 0].copy_(tensor)
    return base[..., 0]


def with_reversed_strides(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy whose first dimension is innermost in memory."""
    if tensor.dim() < 2 or tensor.numel() < 2:
        return tensor
    order = list(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def with_offset(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy at an offset of three elements."""
    if tensor.numel() < 1:
        return tensor
    base = torch.ones(tensor.numel() + 5, dtype=tensor.dtype)
    view = base[3 : 3 + tensor.numel()].view(tensor.shape)
    return view.copy_(tensor)


LAYOUTS = {
    "inputs with gaps": with_gaps,
    "transposed inputs": with_reversed_strides,
    "inputs at an offset": with_offset,
}


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if subject.name in DEFINED_BY_MEMORY:
        return []
    return first_dtypes(target, subject, _DTYPES, 2)


@register(
    "layout",
    subject_kind="operator",
    statement=(
        "Inputs with gaps, transposed, at an offset, expanded, or with any stride in a dimension of size one "
        "give the values of contiguous inputs."
    ),
    documentation="tensor_view.html",
    basis="consistency",
    ground="The operator must give the same values for every layout of the same input",
    level="core",
    applies=dtypes_to_check,
    capabilities=("non_contiguous", "strides"),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator on inputs in other layouts and compare with the reference of contiguous inputs."""
    for sample, reference in samples_with_references(target, subject, recorder, LIMIT):
        for label, change in LAYOUTS.items():
            derived = with_transformed_tensors(sample, change)
            if derived is None:
                recorder.compared(1)  # no tensor of the sample can have this layout
                continue
            check_transformed_sample(target, subject, recorder, sample, derived, reference, label)
        _check_expanded(target, subject, recorder, sample)
        if torch_testing_internals.is_elementwise_unary(
            subject.info
        ) or torch_testing_internals.is_elementwise_binary(subject.info):
            _check_slices_of_one_row(target, subject, recorder, sample)


#: On the target cpu, these operators are not checked with expanded inputs: their results depend on the memory
#: after the elements of the input.
_UNDEFINED_ON_THE_CPU = frozenset({"median", "nanmedian", "masked.median"})


def _check_expanded(target: Target, subject: Subject, recorder: Recorder, sample: Sample) -> None:
    """Check the operator with the first row of the first input expanded to all rows by a stride of zero.

    The reference is computed for contiguous memory with the same values.
    """
    first_input = sample.input
    if (
        not isinstance(first_input, torch.Tensor)
        or first_input.layout is not torch.strided
        or first_input.requires_grad
    ):
        return
    if rule(subject.name, first_input.dtype).name == "factorisation":
        return  # equal rows make a matrix singular
    if (
        first_input.dim() == 0
        or first_input.shape[0] < 2
        or first_input.numel() == 0
        or trees.numel(sample.args) > 10_000
    ):
        return
    if target.is_cpu and subject.name in _UNDEFINED_ON_THE_CPU:
        recorder.note(
            "expanded inputs are omitted: torch's CPU kernel reads beyond their memory (docs/torch-bugs.md)"
        )
        return
    expanded = sample.replace(input=first_input[:1].clone().expand(first_input.shape))
    dense = sample.replace(input=expanded.input.contiguous())  # the reference needs contiguous memory
    reference = reference_for(Call(subject, dtype_under_test(recorder), dense))
    if reference.ok:
        check_transformed_sample(target, subject, recorder, sample, expanded, reference, "an expanded input")


#: Shapes of larger tensors, whose first slices are checked. No page sets the least number of dimensions that
#: a device supports, so the shapes have at most five dimensions, as batches of volumes have.
_WHOLE = ((3, 20), (2, 2, 3, 1, 2))


def _check_slices_of_one_row(target: Target, subject: Subject, recorder: Recorder, sample: Sample) -> None:
    """Check slices whose first dimension has size 1: the stride of this dimension may have any value."""
    for whole in _WHOLE:

        def first_slice(tensor: torch.Tensor, whole: tuple[int, ...] = whole) -> torch.Tensor:
            if tensor.dim() == 0 or not tensor.numel():
                return tensor
            count = torch.Size(whole).numel()
            values = tensor.reshape(-1).repeat(-(-count // tensor.numel()))[:count]
            return values.reshape(whole)[:1, :10] if len(whole) == 2 else values.reshape(whole)[:1]

        sliced = with_transformed_tensors(sample, first_slice)
        if sliced is None:
            recorder.compared(1)  # the sample has only numbers, which have no strides
            return
        host = to_host(sliced)
        dense = with_transformed_tensors(
            host, lambda tensor: tensor.clone(memory_format=torch.contiguous_format)
        )
        assert dense is not None
        reference = reference_for(Call(subject, dtype_under_test(recorder), dense))
        if reference.ok:
            check_transformed_sample(
                target, subject, recorder, sample, sliced, reference, "a slice of one row"
            )
