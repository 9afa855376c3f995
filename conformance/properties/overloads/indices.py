"""Property: indices out of range are rejected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.overloads._call_forms import call_forms_of
from conformance.properties.overloads._modified_calls import arguments_with_values, with_argument
from conformance.properties.overloads._references import OverloadReference, dtypes_for_property, references
from conformance.properties.overloads.errors import check_raises_like_cpu
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Matches overloads that must raise an error for an index out of range, according to documentation. Other
#: overloads are not checked, because they may read any memory.
_RAISES_BY_DOCUMENTATION = re.compile(
    r"(index|index_select|index_add|index_copy|index_fill|index_reduce|index_put|gather|take|put|scatter\w*"
    r"|embedding|_embedding_bag|nll_loss_forward|nll_loss2d_forward|max_unpool[23]d)$"
)
_NAMES = ("index", "indices", "target")
_LIMIT = 2
#: An index that is larger than any dimension of a sample.
_FAR = 1 << 30


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return a list with at most one dtype, because the errors do not depend on the dtype."""
    if not _RAISES_BY_DOCUMENTATION.match(base_name(subject.name)):
        return []
    names = dtypes_for_property("overload-indices", target, subject)
    return [name for name in ("float32", "int64") if name in names][:1] or list(names)[:1]


@register(
    "overload-indices",
    subject_kind="overload",
    statement=(
        "A positive or negative index out of range raises an error in every form if the CPU raises an error."
    ),
    documentation="torch.html",
    basis="parity",
    ground="No page says that an index out of range raises; scatter_ and gather state only the allowed range",
    level="full",
    applies=dtypes_to_check,
    modes=("eager",),
    capabilities=("index_checks",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call each form with an index out of range and compare the type of the error with the CPU's error."""
    for reference in references(target, subject, recorder, _LIMIT):
        recorder.allow_nothing_compared("the CPU accepts indices out of range in these calls")
        for form in call_forms_of(target, reference):
            for sample in _calls_with_far_index(reference):
                check_raises_like_cpu(target, recorder, reference, form, sample, None)


def _calls_with_far_index(reference: OverloadReference) -> Iterator[Sample]:
    """Yield the call with one index far out of range, at the first and at the last position."""
    for argument, value in arguments_with_values(reference):
        if argument.name not in _NAMES:
            continue
        several = isinstance(value, (list, tuple))
        for number, index in enumerate(value if several else [value]):
            if not isinstance(index, torch.Tensor) or index.dtype != torch.int64 or not index.numel():
                continue
            for position, far_index in ((0, _FAR), (-1, _FAR), (-1, -_FAR)):
                wrong = index.detach().clone(memory_format=torch.contiguous_format)
                wrong.view(-1)[position] = far_index
                changed = (
                    [wrong if i == number else tensor for i, tensor in enumerate(value)] if several else wrong
                )
                yield with_argument(reference, argument.name, changed)
