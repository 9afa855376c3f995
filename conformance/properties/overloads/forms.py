"""Every form of an overload gives the same, into the memory that its schema names."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators._common import copy_in, failed_call, run
from conformance.properties.overloads._answers import (
    Answer,
    agree,
    answer,
    answers,
    answers_of,
    dtypes,
    with_writes,
)
from conformance.properties.overloads._forms import (
    FUNCTION,
    OUT,
    as_returned,
    forms_of,
    held,
    hold,
    new_outs,
    with_outs,
)
from conformance.properties.overloads._result_strides import hold_strides
from conformance.samples.handmade_calls.identity import NEUTRAL
from conformance.samples.operators import dtype_name
from conformance.subjects.overloads import Overload
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 4
#: torch's own kernel writes to the memory of an out= that is empty, and ends the process.
_NEVER_RESIZED = frozenset({"rrelu_with_noise"})
#: Internal overloads to which operators hand on a dimension as it was given.
_COUNTS_EITHER_WAY = re.compile(r"_(log_)?softmax(_backward_data)?$")


@register(
    "overload-forms",
    subject_kind="overload",
    statement=(
        "As a function, in place and with out= an overload gives the CPU's results; what its schema calls a "
        "new tensor shares no memory with an argument, what it calls a view does; an empty out= is resized; "
        "strides are those of torch's Meta kernels. So it is for calls that return an argument's values."
    ),
    documentation="notes/out.html",
    level="core",
    applies=functools.partial(dtypes, "overload-forms"),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    inferred: set[str] = set()
    for found in answers(target, subject, recorder, _LIMIT):
        for form in forms_of(target, found):
            hold(target, recorder, found, form)
            if form not in inferred:
                with torch.inference_mode():  # without autograd between, which returns arguments itself
                    if hold(target, recorder, found, form):
                        inferred.add(form)
            if form == OUT and subject.name not in _NEVER_RESIZED:
                held(target, recorder, found, functools.partial(_resized, found=found))
        held(target, recorder, found, functools.partial(_aliasing, found=found))
        hold_strides(target, recorder, found)
        for wrapped in _negative(found):
            for form in forms_of(target, wrapped):
                hold(target, recorder, wrapped, form)
    for unchanged in answers_of(target, subject, recorder.id.dtype, NEUTRAL):
        hold(target, recorder, unchanged, FUNCTION)


def _resized(target: Target, recorder: Recorder, overload: Overload, found: Answer) -> None:
    copy = copy_in(target, recorder, found.sample)
    if copy is None:
        return
    outs = [one.new_empty(0) for one in new_outs(target, recorder, found)]
    named = dict(zip(overload.outs, outs, strict=True))
    outcome = run(target, overload.out, with_outs(found.overload.out, copy, named))
    if outcome.ok:
        into = with_writes(found.overload.op, copy, as_returned(found.returned, outs))
        agree(target, recorder, found, into, "an out= that was empty")
    else:
        failed_call(target, recorder, found.sample, outcome, "the form with an empty out=")


def _aliasing(target: Target, recorder: Recorder, overload: Overload, found: Answer) -> None:
    """Results share memory with arguments as the schema says, and as they do on the CPU."""
    returns = found.overload.op._schema.returns
    if any(r.alias_info is not None and r.alias_info.is_write for r in returns):
        return
    viewed = any(r.alias_info is not None for r in returns)
    if viewed and not target.capable("views"):
        return
    copy = copy_in(target, recorder, found.sample)
    outcome = None if copy is None else run(target, overload.op, copy)
    if copy is None or outcome is None or not outcome.ok:
        return
    for number, value in enumerate(trees.tensors(outcome.value)):
        if value.numel():
            shared = any(torch_testing_internals.shares_memory(value, one) for one in copy.tensors())
            text = "shares memory with an argument" if shared else "is a copy, not a view"
            message = f"part {number} of the result {text}."
            fact(recorder, shared == viewed, Kind.ALIASING, message, sample=found.sample.index)


def counts_from_the_start(name: str) -> bool:
    """Return whether an overload trusts its callers to count dimensions from the start."""
    return name.startswith("_") and not _COUNTS_EITHER_WAY.match(name)


def _negative(found: Answer) -> Iterator[Answer]:
    """The same call with its dimensions counted from the end, or from the start if they were."""
    schema = found.overload.op._schema
    tensors = found.sample.tensors()
    if not tensors or counts_from_the_start(found.subject.name):
        return
    rank = tensors[0].dim()
    given = [found.sample.input, *found.sample.args]
    changed = False
    for position, argument in enumerate(schema.arguments[: len(given)]):
        if argument.name not in ("dim", "dim0", "dim1", "dims", "axis") or rank == 0:
            continue
        value = given[position]
        if isinstance(value, int) and not isinstance(value, bool):
            given[position], changed = _other(value, rank), True
        elif isinstance(value, (list, tuple)) and value:
            given[position], changed = [_other(one, rank) for one in value], True
    if changed:
        other = answer(
            found.subject,
            dtype_name(found.dtype),
            found.sample.replace(input=given[0], args=tuple(given[1:])),
        )
        if other is not None and _same_shapes(other.plain, found.plain):
            yield other


def _other(dim: int, rank: int) -> int:
    return dim - rank if dim >= 0 else dim + rank


def _same_shapes(left: Any, right: Any) -> bool:
    return [t.shape for t in trees.tensors(left)] == [t.shape for t in trees.tensors(right)]
