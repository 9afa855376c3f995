"""Indices that no element has are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.overloads._call_forms import forms_of
from conformance.properties.overloads._modified_calls import arguments, with_argument
from conformance.properties.overloads._references import OverloadReference, dtypes, references
from conformance.properties.overloads.errors import refused
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Overloads that are documented to raise; others may read what is there.
_READERS = re.compile(
    r"(index|index_select|index_add|index_copy|index_fill|index_reduce|index_put|gather|take|put|scatter\w*"
    r"|embedding|_embedding_bag|nll_loss_forward|nll_loss2d_forward|max_unpool[23]d)$"
)
_NAMES = ("index", "indices", "target")
_LIMIT = 2
#: No sample is so long.
_FAR = 1 << 30


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result: the first one says it all."""
    if not _READERS.match(base_name(subject.name)):
        return []
    names = dtypes("overload-indices", target, subject)
    return [name for name in ("float32", "int64") if name in names][:1] or list(names)[:1]


@register(
    "overload-indices",
    subject_kind="overload",
    statement=(
        "An index out of range, negative or not, is an error in every form whenever it is one on the CPU."
    ),
    documentation="torch.html",
    level="full",
    applies=applies,
    modes=("eager",),
    capabilities=("index_checks",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for reference in references(target, subject, recorder, _LIMIT):
        recorder.idle("the CPU takes every index in these calls")
        for form in forms_of(target, reference):
            for sample in _far(reference):
                refused(target, recorder, reference, form, sample, None)


def _far(reference: OverloadReference) -> Iterator[Sample]:
    """Yield the call with one index far out of range, at the first and at the last place."""
    for argument, value in arguments(reference):
        if argument.name not in _NAMES:
            continue
        several = isinstance(value, (list, tuple))
        for number, index in enumerate(value if several else [value]):
            if not isinstance(index, torch.Tensor) or index.dtype != torch.int64 or not index.numel():
                continue
            for place, far in ((0, _FAR), (-1, _FAR), (-1, -_FAR)):
                wrong = index.detach().clone(memory_format=torch.contiguous_format)
                wrong.view(-1)[place] = far
                changed = [wrong if i == number else one for i, one in enumerate(value)] if several else wrong
                yield with_argument(reference, argument.name, changed)
