"""Lazy conjugates and negatives have the values that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators._transformed_samples import ABOUT_MEMORY, check_derived, transformed
from conformance.properties.operators.variants import forms
from conformance.properties.shared.dtypes import dtypes_of, pristine
from conformance.properties.shared.execution import cases
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4


def conjugated(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values as a lazy conjugate of their conjugates."""
    return tensor.conj().resolve_conj().conj() if tensor.is_complex() else tensor


def negated(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values as a lazy negative of their negatives."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    return torch._neg_view(tensor.neg())


def both(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values as a lazy negative of a lazy conjugate."""
    return torch._neg_view(tensor.neg().conj().resolve_conj().conj()) if tensor.is_complex() else tensor


FORMS = {"lazy conjugates": conjugated, "lazy negatives": negated, "lazy negative conjugates": both}


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.name in ABOUT_MEMORY:
        return []
    return dtypes_of(target, subject, ("complex64", "float32"))


@register(
    "bits",
    subject_kind="operator",
    statement=(
        "Inputs that are lazy conjugates or negatives give the values of plain inputs, in place as well."
    ),
    documentation="generated/torch.Tensor.resolve_conj.html",
    level="core",
    applies=applies,
    capabilities=("conj_neg_views",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in cases(target, subject, recorder, LIMIT):
        for what, change in FORMS.items():
            derived = transformed(sample, change)
            if derived is None:
                recorder.compared(1)  # no tensor that could be lazy
                continue
            plain = want.outputs
            inplace = (
                isinstance(plain, torch.Tensor)
                and isinstance(sample.input, torch.Tensor)
                and plain.shape == sample.input.shape
                and plain.dtype == sample.input.dtype
                and target.capable("inplace")
            )
            check_derived(
                target,
                subject,
                recorder,
                sample,
                derived,
                want,
                what,
                forms=list(_forms(subject, inplace)),
            )


def _forms(subject: Subject, inplace: bool) -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    yield "operator", subject.info.op, pristine(subject).op
    if inplace:
        references = dict(forms(pristine(subject), inplace=True))
        for name, form in list(forms(subject.info, inplace=True))[:1]:
            yield name, form, references[name]
