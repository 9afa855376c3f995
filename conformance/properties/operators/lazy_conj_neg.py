"""Property: operators treat lazy conjugates and lazy negatives like ordinary tensors of the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators._transformed_samples import (
    DEFINED_BY_MEMORY,
    check_transformed_sample,
    with_transformed_tensors,
)
from conformance.properties.operators.variants import call_forms_of_operator
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import dtypes_of, unmodified_info
from conformance.properties.shared.execution import samples_with_references
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4


def as_lazy_conjugate(tensor: torch.Tensor) -> torch.Tensor:
    """Return a lazy conjugate that has the values of ``tensor``. A real tensor is returned unchanged."""
    return tensor.conj().resolve_conj().conj() if tensor.is_complex() else tensor


def as_lazy_negative(tensor: torch.Tensor) -> torch.Tensor:
    """Return a lazy negative that has the values of ``tensor``. An integer or bool tensor is returned
    unchanged.
    """
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    return torch._neg_view(tensor.neg())


def as_lazy_negative_of_conjugate(tensor: torch.Tensor) -> torch.Tensor:
    """Return a lazy negative of a lazy conjugate that has the values of ``tensor``. A real tensor is returned
    unchanged.
    """
    return torch._neg_view(tensor.neg().conj().resolve_conj().conj()) if tensor.is_complex() else tensor


FORMS = {
    "lazy conjugates": as_lazy_conjugate,
    "lazy negatives": as_lazy_negative,
    "lazy negative conjugates": as_lazy_negative_of_conjugate,
}


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if subject.name in DEFINED_BY_MEMORY:
        return []
    return dtypes_of(target, subject, ("complex64", "float32"))


@register(
    "bits",
    subject_kind="operator",
    statement=(
        "Inputs that are lazy conjugates or negatives give the values of ordinary inputs, also in place."
    ),
    documentation="generated/torch.resolve_conj.html",
    level="core",
    applies=dtypes_to_check,
    capabilities=("conj_neg_views",),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator, also in place, on lazy conjugates and negatives and compare with the reference."""
    for sample, reference in samples_with_references(target, subject, recorder, LIMIT):
        for label, change in FORMS.items():
            derived = with_transformed_tensors(sample, change)
            if derived is None:
                recorder.compared(1)  # no tensor of the sample has a dtype with lazy conjugates or negatives
                continue
            outputs = reference.outputs
            inplace = (
                isinstance(outputs, torch.Tensor)
                and isinstance(sample.input, torch.Tensor)
                and outputs.shape == sample.input.shape
                and outputs.dtype == sample.input.dtype
                and target.capable("inplace")
            )
            check_transformed_sample(
                target,
                subject,
                recorder,
                sample,
                derived,
                reference,
                label,
                forms=list(_operator_and_in_place_forms(subject, inplace)),
            )


def _operator_and_in_place_forms(
    subject: Subject, inplace: bool
) -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    yield "operator", subject.info.op, unmodified_info(subject).op
    if inplace:
        references = dict(call_forms_of_operator(unmodified_info(subject), inplace=True))
        for name, form in list(call_forms_of_operator(subject.info, inplace=True))[:1]:
            yield name, form, references[name]
