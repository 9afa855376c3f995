"""Many calls, of several threads too, give the same results in any memory, keep none, and each looks at its
own arguments.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Collection
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.compare import same_bits
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle import relations
from conformance.properties.overloads._call_forms import (
    FUNCTION,
    IN_PLACE,
    OUT,
    cpu_accepts_form,
    forms_of,
    has_both_kernels,
    new_out_tensors,
    with_outs,
)
from conformance.properties.overloads._memory import FILLERS, KeptMemory, keeps_no_memory, leave_behind
from conformance.properties.overloads._modified_calls import backwards, mapped, reference_of_modified_call
from conformance.properties.overloads._references import (
    OverloadReference,
    compare_overload_outputs,
    dtypes,
    is_unchecked,
    outputs_with_hidden_writes,
    references,
)
from conformance.properties.shared.execution import copy_in, report_failed_call, run
from conformance.samples.dispatched_kernels import base_name, is_view
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Calls of each form: more than the longest period of a wrong result that comes now and then.
_CALLS = 100
#: Calls of what is too large for that.
_FEW = 8
#: Before every so many calls freed memory is full of something else.
_FRESH = 20
#: After every so many calls the memory is counted that they have kept.
_ROUND = 25
#: Calls that are looked at for one that is small enough.
_TRIED = 6
#: Calls with larger tensors are not repeated so often.
_LARGEST = 4096
#: Calls of each of two threads that call at the same time.
_OF_A_THREAD = 50
#: Seconds that a thread waits for the others to start.
_PATIENCE = 60.0


@register(
    "overload-repeats",
    subject_kind="overload",
    statement=(
        "A hundred calls give the same results as one, in every form, whatever the memory held that they are "
        "given, and so do calls of two threads at the same time; eight do if they are large. They leave "
        "no memory allocated; a call with other values after one of the same sizes gives its own results."
    ),
    documentation="notes/randomness.html",
    level="core",
    applies=functools.partial(dtypes, "overload-repeats"),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    known = list(references(target, subject, recorder, _TRIED))
    recorder.idle("no call of the overload can be repeated")
    _hold(target, recorder, known, _as_it_is)
    if known and has_both_kernels(target, known[0]):
        _hold(target, recorder, known, _in_inference_mode)


def _as_it_is(op: Any) -> Any:
    return op


def _in_inference_mode(op: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode():
            return op(*args, **kwargs)

    return call


#: Makes of an overload what is called.
_Way = Callable[[Any], Any]


def _hold(target: Target, recorder: Recorder, known: list[OverloadReference], way: _Way) -> None:
    for found in known:
        if trees.numel(found.sample.arguments) + trees.numel(found.outputs) > _LARGEST:
            continue
        for form in forms_of(target, found):
            of_form = found.in_place if form == IN_PLACE else found
            if of_form is not None:
                _repeat(target, recorder, of_form, form, way)
        _others(target, recorder, found, way)
        return
    if known:  # all are too large to keep a hundred results of
        _a_few_times(target, recorder, known[0], way)
        _others(target, recorder, known[0], way)


def _a_few_times(target: Target, recorder: Recorder, reference: OverloadReference, way: _Way) -> None:
    """Make calls one after the other, each on arguments of its own, and compare all of their results."""
    op = way(reference.subject.info.op)
    for call in range(_FEW):
        copy = copy_in(target, recorder, reference.sample)
        outcome = None if copy is None else run(target, op, copy)
        if copy is None or outcome is None:
            return
        if not outcome.ok:
            report_failed_call(target, recorder, reference.sample, outcome, f"call {call} of the {FUNCTION}")
            return
        value = outputs_with_hidden_writes(reference.overload.op, copy, outcome.value)
        compare_overload_outputs(target, recorder, reference, value, f"call {call} of the {FUNCTION}")
    copy = copy_in(target, recorder, reference.sample)
    if copy is not None:
        keeps_no_memory(target, recorder, op, copy)


def _repeat(target: Target, recorder: Recorder, reference: OverloadReference, form: str, way: _Way) -> None:
    """Make calls one after the other and compare their results, fetched together."""
    copy = copy_in(target, recorder, reference.sample)
    if copy is None:
        return
    if form == IN_PLACE and is_view(reference.overload.op):
        return  # it changes sizes and strides, and no memory that could be compared
    parts = trees.tensors(reference.outputs)
    if not all(leaf is None or isinstance(leaf, torch.Tensor) for leaf in trees.leaves(reference.outputs)):
        return
    overload = reference.subject.info
    dtypes = [part.dtype for part in parts]
    if form == OUT:
        outs = new_out_tensors(target, recorder, reference)
        dtypes[: len(outs)] = [out.dtype for out in outs]
    rows = [
        torch.empty((_CALLS, *part.shape), dtype=dtype, device=target.torch_device).fill_(1)
        for part, dtype in zip(parts, dtypes, strict=True)
    ]
    if form == IN_PLACE:
        rows[0].copy_(copy.input)

    made = 0
    kept = KeptMemory(target)
    free = relations.free_parts(base_name(reference.subject.name), reference.sample)

    def calls(_: Any) -> None:
        nonlocal made
        for made in range(_CALLS):
            call = made
            if call % _FRESH == 0:
                filler = FILLERS[call // _FRESH % 2]
                leave_behind([part.nbytes for part in parts], target.torch_device, filler)
            if form == IN_PLACE:
                copy.replace(input=rows[0][call]).call(way(overload.in_place))
            elif form == OUT:
                named = {name: row[call] for name, row in zip(overload.outs, rows, strict=False)}
                own = _unwritten(reference, copy)
                written = outputs_with_hidden_writes(
                    reference.overload.op,
                    own,
                    with_outs(reference.overload.out, own, named).call(way(overload.out)),
                )
                parts_now = trees.tensors(written)
                there = {
                    n for n in range(len(named)) if not (parts_now[n].is_conj() or parts_now[n].is_neg())
                }
                _keep(call, rows, parts_now, free | there)
            else:
                _keep(call, rows, _results(reference, _unwritten(reference, copy), way(overload.op)), free)
            if call % _ROUND == _ROUND - 1:
                kept.count()

    first = run(target, calls, Sample(reference.sample.index, None))
    if not first.ok:
        if made and cpu_accepts_form(reference, form):
            report_failed_call(
                target, recorder, reference.sample, first, f"one of {_CALLS} calls of the {form}"
            )
        return  # if the first call fails, another property says so
    _same(target, recorder, reference, rows, f"of the {form}")
    kept.check(recorder, f"{_ROUND} calls of the {form}", reference.sample.index)
    if form == FUNCTION:
        _in_threads(target, recorder, reference, copy, way)


def _unwritten(reference: OverloadReference, given: Sample) -> Sample:
    """The arguments of one more call, with copies of what calls write."""
    return mapped(given, torch.Tensor.clone) if reference.written else given


def _results(reference: OverloadReference, given: Sample, op: Any) -> list[torch.Tensor]:
    """The tensors that a call returns, and those that it writes besides."""
    return trees.tensors(outputs_with_hidden_writes(reference.overload.op, given, given.call(op)))


def _keep(
    call: int, rows: list[torch.Tensor], results: list[torch.Tensor], left_out: Collection[int]
) -> None:
    """Copy the results of a call to its rows, but for those left out: there already, or free of promises.

    What is free may have another shape than on the CPU. What out= took may be a lazy conjugate, of which the
    row does not know.
    """
    for number, (row, result) in enumerate(zip(rows, results, strict=True)):
        if number not in left_out:
            row[call].copy_(result.resolve_conj().resolve_neg())


def _same(
    target: Target, recorder: Recorder, reference: OverloadReference, rows: list[torch.Tensor], label: str
) -> None:
    """Compare results that all should be the same: the first one, and two that differ from it."""
    parts = trees.tensors(reference.outputs)
    for number, row in enumerate(rows):
        fetched = row.cpu()
        # What adds up in no fixed order may differ in its last bits.
        others = (call for call in range(1, len(fetched)) if not same_bits(fetched[call], fetched[0]))
        for call in [0, *itertools.islice(others, 2)]:
            values = [row[call] if i == number else other for i, other in enumerate(parts)]
            on_device = [value.to(target.torch_device) for value in values]
            compare_overload_outputs(
                target, recorder, reference, _nested(reference, on_device), f"call {call} {label}"
            )


def _nested(reference: OverloadReference, parts: list[torch.Tensor]) -> Any:
    """The answer with other tensors for its own."""
    left = iter(parts)
    return trees.tree_map(
        lambda leaf: next(left) if isinstance(leaf, torch.Tensor) else leaf, reference.outputs
    )


def _in_threads(
    target: Target, recorder: Recorder, reference: OverloadReference, copy: Sample, way: _Way
) -> None:
    """Make calls in two threads at the same time, if possible with other values in the second one."""
    others = (
        None
        if is_unchecked(reference.subject)
        else reference_of_modified_call(reference, mapped(reference.sample, _other_values))
    )
    members = [reference, reference if others is None else others]
    copies = [copy, copy_in(target, recorder, members[1].sample)]
    rows = [
        [
            torch.empty((_OF_A_THREAD, *part.shape), dtype=part.dtype, device=target.torch_device).fill_(1)
            for part in trees.tensors(member.outputs)
        ]
        for member in members
    ]
    errors: list[Exception] = []
    free = relations.free_parts(base_name(reference.subject.name), reference.sample)
    together = threading.Barrier(len(members), timeout=_PATIENCE)

    def calls(own: Sample, into: list[torch.Tensor]) -> None:
        try:
            together.wait()
            with torch.no_grad():
                for call in range(_OF_A_THREAD):
                    results = _results(reference, _unwritten(reference, own), way(reference.subject.info.op))
                    _keep(call, into, results, free)
                if not target.is_cpu:
                    target.synchronize()
        except Exception as error:
            errors.append(error)

    def in_threads(_: Any) -> None:
        threads = [threading.Thread(target=calls, args=pair) for pair in zip(copies, rows, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    if copies[1] is None:
        return
    outcome = run(target, in_threads, Sample(reference.sample.index, None))
    what = "of two threads at the same time"
    if not outcome.ok:
        report_failed_call(target, recorder, reference.sample, outcome, f"one of the calls {what}")
        return
    for member, into in zip(members, rows, strict=True):
        _same(target, recorder, member, into, what)


def _other_values(tensor: torch.Tensor) -> torch.Tensor:
    return backwards(tensor) if tensor.is_floating_point() or tensor.is_complex() else tensor


def _others(target: Target, recorder: Recorder, reference: OverloadReference, way: _Way) -> None:
    """Call with other values of the same sizes, one call after the other."""
    if is_unchecked(reference.subject):
        return

    other = reference_of_modified_call(reference, mapped(reference.sample, _other_values))
    if other is None:
        return
    for one in (reference, other):
        copy = copy_in(target, recorder, one.sample)
        if copy is not None:
            outcome = run(target, way(reference.subject.info.op), copy)
            if outcome.ok:
                value = outputs_with_hidden_writes(reference.overload.op, copy, outcome.value)
                compare_overload_outputs(target, recorder, one, value, "a call after one of the same sizes")
