"""Dimensions that are not there and sizes that do not fit are refused, in every form of an overload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conformance.checking import trees
from conformance.checking.compare import fact
from conformance.checking.invocation import attempt, one_line
from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators._common import copy_in, run
from conformance.properties.overloads._answers import (
    Answer,
    answers,
    call_quietly,
    dtypes,
    trusts_its_callers,
)
from conformance.properties.overloads._changes import arguments, with_argument, with_tensor
from conformance.properties.overloads._forms import IN_PLACE, OUT, forms_of, with_outs
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.databases import Subject
from conformance.subjects.overloads import Overload
from conformance.target.target import Target

_LIMIT = 2
_TENSORS = 4
#: What torch's operators raise for arguments that do not fit.
_ERRORS = (RuntimeError, IndexError, ValueError, TypeError)
#: A dimension that no sample has.
_FAR = 70


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result: the first one says it all."""
    names = [] if trusts_its_callers(subject) else dtypes(target, subject)
    order = ("float32", "int64", "complex64", "bool")
    return [name for name in order if name in names][:1] or list(names)[:1]


@register(
    "overload-errors",
    subject_kind="overload",
    statement=(
        "A dimension that an argument does not have is an IndexError, and sizes that do not fit together are "
        "an error, wherever they are on the CPU, in every form."
    ),
    level="core",
    applies=applies,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for found in answers(subject, recorder, _LIMIT):
        recorder.compared(1)  # the call has an answer; perhaps everything of its kind has one
        for form in forms_of(target, found):
            for sample in _far_dimensions(found):
                _refused(target, recorder, found, form, sample)
            if form != OUT:  # an out= of another size is resized, if the sizes fit each other at all
                for sample in _other_sizes(found):
                    _refused(target, recorder, found, form, sample)


def _far_dimensions(found: Answer) -> Iterator[Sample]:
    for argument, value in arguments(found):
        if argument.name in ("dim", "dim0", "dim1", "axis") and isinstance(value, int):
            yield with_argument(found, argument.name, _FAR)
            yield with_argument(found, argument.name, -_FAR)
        elif argument.name in ("dim", "dims") and isinstance(value, (list, tuple)) and value:
            yield with_argument(found, argument.name, [_FAR])


def _other_sizes(found: Answer) -> Iterator[Sample]:
    for place, tensor in enumerate(found.sample.tensors()[:_TENSORS]):
        if tensor.dim() and tensor.numel():
            repeats = [1] * (tensor.dim() - 1) + [3]
            yield with_tensor(found.sample, place, tensor.detach().repeat(repeats)[..., :-1].contiguous())


def _refused(target: Target, recorder: Recorder, found: Answer, form: str, sample: Sample) -> None:
    due = attempt(lambda: call_quietly(*_call(found, found.overload, form, to_host(sample), "cpu"))).error
    if due is None or isinstance(due, NotImplementedError):
        return
    copy = copy_in(target, recorder, sample)
    if copy is None:
        return
    outcome = run(target, *_call(found, found.subject.info, form, copy, target.device))
    kinds = (IndexError,) if isinstance(due, IndexError) else _ERRORS
    got = "is accepted" if outcome.error is None else f"raises {one_line(outcome.error)}"
    text = f"the {form} on ({sample.describe()}) {got}; on the CPU: {one_line(due)}"
    fact(recorder, isinstance(outcome.error, kinds), Kind.ERROR_TYPE, text, sample=found.sample.index)


def _call(found: Answer, overload: Overload, form: str, sample: Sample, device: str) -> tuple[Any, Sample]:
    """Return what to call and with what."""
    if form == IN_PLACE:
        return overload.in_place, sample
    if form == OUT:
        parts = trees.tensors(found.plain)
        outs = [torch.empty(part.shape, dtype=part.dtype, device=device).fill_(1) for part in parts]
        return overload.out, with_outs(
            found.overload.out, sample, dict(zip(overload.outs, outs, strict=True))
        )
    return overload.op, sample
