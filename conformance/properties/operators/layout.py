"""The places of elements in memory do not matter."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import rule
from conformance.oracle.reference import reference_for
from conformance.properties.operators._transformed_samples import ABOUT_MEMORY, check_derived, transformed
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.properties.shared.execution import cases
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 6
_DTYPES = ("float32", "int64", "complex64", "bool", "bfloat16", "float64")


def gapped(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values, every second element of the memory unused (and filled with ones)."""
    if tensor.numel() < 1 or tensor.dim() == 0:
        return tensor
    base = torch.ones((*tensor.shape, 2), dtype=tensor.dtype)
    base[..., 0].copy_(tensor)
    return base[..., 0]


def reversed_order(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values with the first dimension innermost in memory."""
    if tensor.dim() < 2 or tensor.numel() < 2:
        return tensor
    order = list(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def shifted(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values, contiguous, three elements into their memory."""
    if tensor.numel() < 1:
        return tensor
    base = torch.ones(tensor.numel() + 5, dtype=tensor.dtype)
    place = base[3 : 3 + tensor.numel()].view(tensor.shape)
    return place.copy_(tensor)


FORMS = {"inputs with gaps": gapped, "transposed inputs": reversed_order, "inputs at an offset": shifted}


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.name in ABOUT_MEMORY:
        return []
    return first_dtypes(target, subject, _DTYPES, 2)


@register(
    "layout",
    subject_kind="operator",
    statement=(
        "Inputs with gaps, transposed, at an offset, expanded and with any stride of a dimension of size one "
        "give the values of contiguous inputs."
    ),
    documentation="generated/torch.Tensor.stride.html",
    level="core",
    applies=applies,
    capabilities=("non_contiguous",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in cases(target, subject, recorder, LIMIT):
        for what, change in FORMS.items():
            derived = transformed(sample, change)
            if derived is None:
                recorder.compared(1)  # no tensor that could have another layout
                continue
            check_derived(target, subject, recorder, sample, derived, want, what)
        _expanded(target, subject, recorder, sample)
        if torch_testing_internals.is_elementwise_unary(
            subject.info
        ) or torch_testing_internals.is_elementwise_binary(subject.info):
            _sliced_to_one(target, subject, recorder, sample)


#: Their results depend on the memory behind the input: neither pass nor fail would mean anything.
_UNDEFINED_ON_THE_CPU = frozenset({"median", "nanmedian", "masked.median"})


def _expanded(target: Target, subject: Subject, recorder: Recorder, sample: Sample) -> None:
    """Check the first input with one row repeated by a stride of zero, against an oracle of its own."""
    given = sample.input
    if not isinstance(given, torch.Tensor) or given.layout is not torch.strided or given.requires_grad:
        return
    if rule(subject.name, given.dtype).name == "factorisation":
        return  # equal rows make a matrix singular
    if given.dim() == 0 or given.shape[0] < 2 or given.numel() == 0 or trees.numel(sample.args) > 10_000:
        return
    if target.is_cpu and subject.name in _UNDEFINED_ON_THE_CPU:
        recorder.note(
            "expanded inputs are left out: torch's CPU kernel reads beyond them (docs/torch-bugs.md)"
        )
        return
    derived = sample.replace(input=given[:1].clone().expand(given.shape))
    dense = sample.replace(input=derived.input.contiguous())  # the oracle's own kernels see ordinary memory
    want = reference_for(subject, dtype_under_test(recorder), dense)
    if want.ok:
        check_derived(target, subject, recorder, derived, derived, want, "an expanded input")


#: Shapes of tensors whose first slices are contiguous, though their strides are not those of their shapes.
_WHOLE = ((3, 20), (2, 2, 3, 1, 2, 1, 3, 2, 1, 2, 3, 2))


def _sliced_to_one(target: Target, subject: Subject, recorder: Recorder, sample: Sample) -> None:
    """Check slices of one element in the first dimension, whose stride says nothing."""
    for whole in _WHOLE:

        def first(tensor: torch.Tensor, whole: tuple[int, ...] = whole) -> torch.Tensor:
            if tensor.dim() == 0 or not tensor.numel():
                return tensor
            count = torch.Size(whole).numel()
            values = tensor.reshape(-1).repeat(-(-count // tensor.numel()))[:count]
            return values.reshape(whole)[:1, :10] if len(whole) == 2 else values.reshape(whole)[:1]

        derived = transformed(sample, first)
        if derived is None:
            recorder.compared(1)  # numbers alone have no strides
            return
        host = to_host(derived)
        dense = transformed(host, lambda tensor: tensor.clone(memory_format=torch.contiguous_format))
        assert dense is not None
        want = reference_for(subject, dtype_under_test(recorder), dense)
        if want.ok:
            check_derived(target, subject, recorder, derived, derived, want, "a slice of one row")
