"""Scalars, up to seven dimensions, no elements, and sizes at which kernels change their ways."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch

from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.properties.operators._enlarged import Way, ways
from conformance.properties.overloads._answers import Answer, answers, dtypes, trusts_its_callers
from conformance.properties.overloads._changes import again, in_dimensions, reshaped, with_tensor
from conformance.properties.overloads._forms import forms_of, hold
from conformance.samples.kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.databases import Subject
from conformance.target.target import Target

_LIMIT = 2
_TENSORS = 4
_RANKS = (4, 5, 6, 7)
#: Behind a vector of 16, and above the sizes from which on kernels work in parts.
_SIZES = (17, 257, 1025, 4097, 65_537)
#: Seconds that the CPU may take for a size, so that a larger one is tried.
_SECONDS = 0.02
_WAYS = 2
#: They write to places that must differ, and in a larger call they would not.
_UNIQUE = frozenset({"scatter", "index_copy", "put", "index_put"})
#: One of them compares all elements of a row with each other.
_SLOW = frozenset({"multilabel_margin_loss_forward", "_cdist_forward", "_pdist_forward"})


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return [] if trusts_its_callers(subject) else dtypes("overload-shapes", target, subject)


@register(
    "overload-shapes",
    subject_kind="overload",
    statement=(
        "Scalars, four to seven dimensions, no elements and 17 to 65,537 elements give the CPU's results in "
        "every form."
    ),
    level="core",
    applies=applies,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    grown = False
    for found in answers(target, subject, recorder, _LIMIT):
        for changed in [*_ranks(found), *scalars(found), *empty(found)]:
            for form in forms_of(target, changed):
                hold(target, recorder, changed, form)
        if not grown and base_name(subject.name) not in _UNIQUE:
            for changed in _sizes(found):
                grown = True
                for form in forms_of(target, changed):
                    hold(target, recorder, changed, form)
        recorder.idle("the CPU takes the calls in no other shape")


def _ranks(found: Answer) -> Iterator[Answer]:
    for rank in _RANKS:
        deeper = in_dimensions(found, rank)
        if deeper is not None:
            yield deeper


def scalars(found: Answer) -> Iterator[Answer]:
    """Yield the answer to the call with scalars for its tensors, if the CPU takes it and it has others."""
    if all(tensor.dim() == 0 or tensor.numel() == 0 for tensor in found.sample.tensors()):
        return
    changed = reshaped(
        found, lambda tensor: tensor.detach().reshape(-1)[0].clone() if tensor.numel() else tensor
    )
    if changed is not None:
        yield changed


def empty(found: Answer) -> Iterator[Answer]:
    """Yield the answers to the call with tensors of no elements, if the CPU takes it."""
    for dimension in (0, -1):

        def without(tensor: torch.Tensor, dimension: int = dimension) -> torch.Tensor:
            return tensor.detach().narrow(dimension, 0, 0).clone() if tensor.dim() else tensor

        changed = reshaped(found, without)
        if changed is not None:
            yield changed
    tensors = found.sample.tensors()
    for place, tensor in enumerate(tensors[:_TENSORS] if len(tensors) > 1 else ()):
        for dimension in (0, -1)[: tensor.dim()]:  # one among others, as torch.cat takes it
            nothing = tensor.detach().narrow(dimension, 0, 0).clone()
            changed = again(found, with_tensor(found.sample, place, nothing))
            if changed is not None:
                yield changed


def _sizes(found: Answer) -> Iterator[Answer]:
    known: list[Way] = []
    new = ways(found.subject, found.sample)
    for size in _SIZES[: 3 if found.subject.name in _SLOW else None]:
        sample = _grown(known, new, size)
        if sample is None:
            return
        started = time.perf_counter()
        changed = again(found, sample)
        if changed is None:
            return
        yield changed
        if time.perf_counter() - started > 20 * _SECONDS:
            return


def _grown(known: list[Way], new: Iterator[Way], size: int) -> Sample | None:
    for way in known:
        sample = way.at(size)
        if sample is not None:
            return sample
    for way in new:
        sample = way.at(size)
        if sample is not None:
            known.append(way)
            return sample
        if len(known) >= _WAYS:
            break
    return None
