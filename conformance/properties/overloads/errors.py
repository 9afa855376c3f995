"""Dimensions that are not there and sizes that do not fit are refused, in every form of an overload."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.overloads._call_forms import IN_PLACE, OUT, forms_of, has_both_kernels, with_outs
from conformance.properties.overloads._modified_calls import arguments, with_argument, with_tensor
from conformance.properties.overloads._references import (
    OverloadReference,
    call_without_warnings,
    declared_dtypes_with_calls,
    is_unchecked,
    references,
)
from conformance.properties.shared.execution import copy_in, run
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.overloads import Overload
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 2
_TENSORS = 4
#: What torch's operators raise for arguments that do not fit; NotImplementedError is a RuntimeError.
_ERRORS = (IndexError, ValueError, TypeError, RuntimeError)
#: Dtypes into which no result of a wider kind may be written (torch.can_cast).
_NARROWER = (torch.int64, torch.bool)
#: The CPU's kernel alone looks at their sizes: those of other devices would write beyond the smaller tensor.
_UNCHECKED = frozenset({"rrelu_with_noise"})
#: A dimension that no sample has.
_FAR = 70


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result: the first one says it all."""
    names = [] if is_unchecked(subject) else declared_dtypes_with_calls(target, subject)
    order = ("float32", "int64", "complex64", "bool")
    first = [name for name in order if name in names][:1] or list(names)[:1]
    return [name for name in first if name not in subject.info.idle.get("overload-errors", ())]


@register(
    "overload-errors",
    subject_kind="overload",
    statement=(
        "A dimension that an argument does not have, sizes that do not fit together, a result that its "
        "memory's dtype cannot hold, and a singular matrix if errors are to be checked are errors whenever "
        "they are on the CPU, and of the same class, to which the tests of torch's database "
        "(ErrorInput.error_type) hold every device."
    ),
    documentation="torch.html",
    level="core",
    applies=applies,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for reference in references(target, subject, recorder, _LIMIT, drawn=True):
        recorder.idle("the CPU takes every call of the overload with another size or dimension")
        # With a kernel for its autograd, the other one is called in inference mode alone.
        twice = has_both_kernels(target, reference)
        modes = (contextlib.nullcontext, torch.inference_mode) if twice else (contextlib.nullcontext,)
        for form in forms_of(target, reference):
            for sample, out in _wrong(reference, form):
                for mode in modes:
                    with mode():
                        refused(target, recorder, reference, form, sample, out)


def is_refused_ever(reference: OverloadReference, form: str) -> bool:
    """Return whether the CPU refuses any of the wrong calls in a form."""
    if is_unchecked(reference.subject) or (form == IN_PLACE and not reference.has_in_place_reference):
        return False
    return any(_due(reference, form, sample, out) is not None for sample, out in _wrong(reference, form))


def _wrong(reference: OverloadReference, form: str) -> Iterator[tuple[Sample, torch.dtype | None]]:
    """Yield wrong calls in a form, and the dtype for their out= if it is what is wrong."""
    for sample in _singular(reference):
        yield sample, None
    for sample in far_dimensions(reference):
        yield sample, None
    if form == OUT:  # one of another size is resized, if the sizes fit each other at all
        for dtype in _NARROWER:
            yield reference.sample, dtype
        return
    if base_name(reference.subject.name) not in _UNCHECKED:
        for sample in other_sizes(reference):
            yield sample, None
    if form == IN_PLACE and isinstance(reference.sample.input, torch.Tensor):
        for dtype in _NARROWER:
            yield reference.sample.replace(input=reference.sample.input.detach().to(dtype)), None


def _due(
    reference: OverloadReference, form: str, sample: Sample, out: torch.dtype | None
) -> Exception | None:
    """Return the CPU's error for a call; None if it takes it, or has no kernel."""
    error = attempt(
        lambda: call_without_warnings(
            *_call(reference, reference.overload, form, to_host(sample), "cpu", out)
        )
    ).error
    return None if isinstance(error, NotImplementedError) else error


def far_dimensions(reference: OverloadReference) -> Iterator[Sample]:
    """Yield the call with dimensions that its arguments do not have."""
    for argument, value in arguments(reference):
        if argument.name in ("dim", "dim0", "dim1", "axis") and isinstance(value, int):
            yield with_argument(reference, argument.name, _FAR)
            yield with_argument(reference, argument.name, -_FAR)
        elif argument.name in ("dim", "dims") and isinstance(value, (list, tuple)) and value:
            yield with_argument(reference, argument.name, [_FAR])


def _singular(reference: OverloadReference) -> Iterator[Sample]:
    """Yield the call with matrices of zeros, if it can be asked to check for errors."""
    first = reference.sample.input
    if isinstance(first, torch.Tensor) and any(
        argument.name == "check_errors" for argument, _ in arguments(reference)
    ):
        yield with_argument(reference, "check_errors", True).replace(input=torch.zeros_like(first))


def _names_far_dimension(reference: OverloadReference, sample: Sample) -> bool:
    return all(one is other for one, other in zip(sample.tensors(), reference.sample.tensors(), strict=True))


def other_sizes(reference: OverloadReference) -> Iterator[Sample]:
    """Yield the call with one tensor after the other in another size."""
    for place, tensor in enumerate(reference.sample.tensors()[:_TENSORS]):
        if tensor.dim() and tensor.numel():
            repeats = [1] * (tensor.dim() - 1) + [3]
            yield with_tensor(reference.sample, place, tensor.detach().repeat(repeats)[..., :-1].contiguous())


def refused(
    target: Target,
    recorder: Recorder,
    reference: OverloadReference,
    form: str,
    sample: Sample,
    out: torch.dtype | None,
) -> None:
    """Check that a call is refused if the CPU refuses it; ``out`` is the dtype of an out=."""
    due = _due(reference, form, sample, out)
    if due is None:
        return
    copy = copy_in(target, recorder, sample)
    if copy is None:
        return
    outcome = run(target, *_call(reference, reference.subject.info, form, copy, target.device, out))
    kinds: tuple[type[Exception], ...] = (next((k for k in _ERRORS if isinstance(due, k)), Exception),)
    if out is None and _names_far_dimension(reference, sample):  # an IndexError by documentation
        kinds = (*kinds, IndexError)
    got = "is accepted" if outcome.error is None else f"raises {one_line(outcome.error)}"
    text = f"the {form} on ({sample.describe()}) {got}; on the CPU: {one_line(due)}"
    fact(recorder, isinstance(outcome.error, kinds), Kind.ERROR_TYPE, text, sample=reference.sample.index)


def _call(
    reference: OverloadReference,
    overload: Overload,
    form: str,
    sample: Sample,
    device: str,
    out: torch.dtype | None = None,
) -> tuple[Any, Sample]:
    """Return what to call and with what."""
    if form == IN_PLACE:
        return overload.in_place, sample
    if form == OUT:
        parts = trees.tensors(reference.returned)
        outs = [torch.empty(part.shape, dtype=out or part.dtype, device=device).fill_(1) for part in parts]
        return overload.out, with_outs(
            reference.overload.out, sample, dict(zip(overload.outs, outs, strict=True))
        )
    return overload.op, sample
