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
from conformance.properties.overloads._call_forms import (
    FUNCTION,
    OUT,
    check_call,
    forms_of,
    in_structure_of,
    new_out_tensors,
    with_cpu_control,
    with_outs,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    compare_overload_outputs,
    dtypes,
    outputs_with_hidden_writes,
    overload_reference,
    references,
    references_of_table,
)
from conformance.properties.overloads._result_strides import hold_strides
from conformance.properties.shared.execution import copy_in, report_failed_call, run
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
    for reference in references(target, subject, recorder, _LIMIT):
        for form in forms_of(target, reference):
            check_call(target, recorder, reference, form)
            if form not in inferred:
                with torch.inference_mode():  # without autograd between, which returns arguments itself
                    if check_call(target, recorder, reference, form):
                        inferred.add(form)
            if form == OUT and subject.name not in _NEVER_RESIZED:
                with_cpu_control(
                    target, recorder, reference, functools.partial(_resized, reference=reference)
                )
        with_cpu_control(target, recorder, reference, functools.partial(_aliasing, reference=reference))
        hold_strides(target, recorder, reference)
        for wrapped in _negative(reference):
            for form in forms_of(target, wrapped):
                check_call(target, recorder, wrapped, form)
    for unchanged in references_of_table(target, subject, recorder.id.dtype, NEUTRAL):
        check_call(target, recorder, unchanged, FUNCTION)


def _resized(target: Target, recorder: Recorder, overload: Overload, reference: OverloadReference) -> None:
    copy = copy_in(target, recorder, reference.sample)
    if copy is None:
        return
    outs = [one.new_empty(0) for one in new_out_tensors(target, recorder, reference)]
    named = dict(zip(overload.outs, outs, strict=True))
    outcome = run(target, overload.out, with_outs(reference.overload.out, copy, named))
    if outcome.ok:
        into = outputs_with_hidden_writes(
            reference.overload.op, copy, in_structure_of(reference.returned, outs)
        )
        compare_overload_outputs(target, recorder, reference, into, "an out= that was empty")
    else:
        report_failed_call(target, recorder, reference.sample, outcome, "the form with an empty out=")


def _aliasing(target: Target, recorder: Recorder, overload: Overload, reference: OverloadReference) -> None:
    """Results share memory with arguments as the schema says, and as they do on the CPU."""
    returns = reference.overload.op._schema.returns
    if any(r.alias_info is not None and r.alias_info.is_write for r in returns):
        return
    viewed = any(r.alias_info is not None for r in returns)
    if viewed and not target.capable("views"):
        return
    copy = copy_in(target, recorder, reference.sample)
    outcome = None if copy is None else run(target, overload.op, copy)
    if copy is None or outcome is None or not outcome.ok:
        return
    for number, value in enumerate(trees.tensors(outcome.value)):
        if value.numel():
            shared = any(torch_testing_internals.shares_memory(value, one) for one in copy.tensors())
            text = "shares memory with an argument" if shared else "is a copy, not a view"
            message = f"part {number} of the result {text}."
            fact(recorder, shared == viewed, Kind.ALIASING, message, sample=reference.sample.index)


def counts_from_the_start(name: str) -> bool:
    """Return whether an overload trusts its callers to count dimensions from the start."""
    return name.startswith("_") and not _COUNTS_EITHER_WAY.match(name)


def _negative(reference: OverloadReference) -> Iterator[OverloadReference]:
    """The same call with its dimensions counted from the end, or from the start if they were."""
    schema = reference.overload.op._schema
    tensors = reference.sample.tensors()
    if not tensors or counts_from_the_start(reference.subject.name):
        return
    rank = tensors[0].dim()
    given = [reference.sample.input, *reference.sample.args]
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
        other = overload_reference(
            reference.subject,
            dtype_name(reference.dtype),
            reference.sample.replace(input=given[0], args=tuple(given[1:])),
        )
        if other is not None and _same_shapes(other.outputs, reference.outputs):
            yield other


def _other(dim: int, rank: int) -> int:
    return dim - rank if dim >= 0 else dim + rank


def _same_shapes(left: Any, right: Any) -> bool:
    return [t.shape for t in trees.tensors(left)] == [t.shape for t in trees.tensors(right)]
