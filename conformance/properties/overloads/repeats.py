"""Property: many calls, also from two threads, return the same results and retain no memory."""

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
from conformance.oracle.filled_memory import FILLERS, fill_and_free_memory
from conformance.oracle.reference import CallForm
from conformance.properties.overloads._call_forms import (
    call_forms_of,
    cpu_accepts_form,
    has_separate_autograd_kernel,
    new_out_tensors,
    with_out_arguments,
)
from conformance.properties.overloads._modified_calls import (
    reference_of_modified_call,
    reversed_elements,
    with_mapped_tensors,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    dtypes_for_property,
    is_unchecked,
    outputs_with_unreturned_writes,
    references,
)
from conformance.properties.overloads._retained_memory import RetainedMemory, check_no_memory_retained
from conformance.properties.shared.comparison import OVERLOADS, compare_outputs
from conformance.properties.shared.execution import copy_sample_to_device, report_failed_call, run_operator
from conformance.samples.dispatched_kernels import base_name, returns_view
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The number of calls of each form. A fault that occurs in one of this number of calls, or more often, is
#: detected.
_CALLS = 100
#: The number of calls if the tensors are too large to store ``_CALLS`` results.
_LARGE_CALLS = 8
#: Freed memory is filled with one byte value. After this number of calls, the value changes.
_CALLS_PER_FILLER = 20
#: After this number of calls, the allocated memory is counted.
_CALLS_PER_ROUND = 25
#: The number of calls in which the check searches for a call with few elements.
_CANDIDATES = 6
#: A call whose arguments and results together have more elements is repeated only ``_LARGE_CALLS`` times.
_MAX_ELEMENTS = 4096
#: The number of calls in each of the two threads.
_CALLS_PER_THREAD = 50
#: Seconds that each thread waits for the other thread to start.
_PATIENCE = 60.0


@register(
    "overload-repeats",
    subject_kind="overload",
    statement=(
        "In every form, a hundred calls (eight if they are large) give the same results as one call, "
        "whatever newly allocated memory contains. Calls in two threads at the same time give correct "
        "results too. The calls leave no memory allocated. A call after a call with the same sizes and other "
        "values gives the results for its own values."
    ),
    documentation="notes/randomness.html",
    basis="consistency",
    ground=(
        "The same call, repeated, in threads, with other sizes or in inference mode, must give the same "
        "result"
    ),
    level="core",
    applies=functools.partial(dtypes_for_property, "overload-repeats"),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Repeat calls in each form and in two threads, and compare every result and the retained memory."""
    calls = list(references(target, subject, recorder, _CANDIDATES))
    recorder.allow_nothing_compared("no call of the overload can be repeated")
    _check_with_wrapper(target, recorder, calls, _unchanged_operator)
    if calls and has_separate_autograd_kernel(target, calls[0]):
        _check_with_wrapper(target, recorder, calls, _in_inference_mode)


def _unchanged_operator(op: Any) -> Any:
    return op


def _in_inference_mode(op: Any) -> Any:
    def call_in_inference_mode(*args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode():
            return op(*args, **kwargs)

    return call_in_inference_mode


#: Returns the callable of an overload unchanged, or wrapped so that it runs in inference mode.
_Wrapper = Callable[[Any], Any]


def _check_with_wrapper(
    target: Target, recorder: Recorder, calls: list[OverloadReference], wrap: _Wrapper
) -> None:
    for reference in calls:
        if trees.numel(reference.sample.arguments) + trees.numel(reference.outputs) > _MAX_ELEMENTS:
            continue
        for form in call_forms_of(target, reference):
            of_form = reference.in_place if form == CallForm.IN_PLACE else reference
            if of_form is not None:
                _check_repeated_calls(target, recorder, of_form, form, wrap)
        _check_two_calls_of_same_sizes(target, recorder, reference, wrap)
        return
    if calls:  # every call is too large: a hundred results cannot be stored
        _check_large_calls(target, recorder, calls[0], wrap)
        _check_two_calls_of_same_sizes(target, recorder, calls[0], wrap)


def _check_large_calls(
    target: Target, recorder: Recorder, reference: OverloadReference, wrap: _Wrapper
) -> None:
    """Make a few calls, each on its own copy of the arguments, and compare all results with the reference."""
    op = wrap(reference.subject.info.op)
    for call in range(_LARGE_CALLS):
        copy = copy_sample_to_device(target, recorder, reference.sample)
        outcome = None if copy is None else run_operator(target, op, copy)
        if copy is None or outcome is None:
            return
        if not outcome.ok:
            report_failed_call(
                target, recorder, reference.sample, outcome, f"call {call} of the {CallForm.FUNCTION}"
            )
            return
        value = outputs_with_unreturned_writes(reference.overload.op, copy, outcome.value)
        compare_outputs(
            target,
            recorder,
            reference,
            value,
            label=f"call {call} of the {CallForm.FUNCTION}",
            policy=OVERLOADS,
        )
    copy = copy_sample_to_device(target, recorder, reference.sample)
    if copy is not None:
        check_no_memory_retained(target, recorder, op, copy)


def _check_repeated_calls(
    target: Target, recorder: Recorder, reference: OverloadReference, form: CallForm, wrap: _Wrapper
) -> None:
    """Make ``_CALLS`` calls, store their results on the device, then compare them with the reference."""
    copy = copy_sample_to_device(target, recorder, reference.sample)
    if copy is None:
        return
    if form == CallForm.IN_PLACE and returns_view(reference.overload.op):
        return  # this in-place form changes sizes and strides, and writes no memory to compare
    parts = trees.tensors(reference.outputs)
    if not all(leaf is None or isinstance(leaf, torch.Tensor) for leaf in trees.leaves(reference.outputs)):
        return
    overload = reference.subject.info
    dtypes = [part.dtype for part in parts]
    if form == CallForm.OUT:
        outs = new_out_tensors(target, recorder, reference)
        dtypes[: len(outs)] = [out.dtype for out in outs]
    rows = [
        torch.empty((_CALLS, *part.shape), dtype=dtype, device=target.torch_device).fill_(1)
        for part, dtype in zip(parts, dtypes, strict=True)
    ]
    if form == CallForm.IN_PLACE:
        rows[0].copy_(copy.input)

    started_calls = 0
    retained_memory = RetainedMemory(target)
    unspecified = relations.outputs_unspecified(base_name(reference.subject.name), reference.sample)

    def call_repeatedly(_: Any) -> None:
        nonlocal started_calls
        for started_calls in range(_CALLS):
            call = started_calls
            if call % _CALLS_PER_FILLER == 0:
                filler = FILLERS[call // _CALLS_PER_FILLER % 2]
                fill_and_free_memory([part.nbytes for part in parts], target.torch_device, filler)
            if form == CallForm.IN_PLACE:
                copy.replace(input=rows[0][call]).call(wrap(overload.in_place))
            elif form == CallForm.OUT:
                named = {name: row[call] for name, row in zip(overload.outs, rows, strict=False)}
                call_sample = _with_copies_of_written(reference, copy)
                written = outputs_with_unreturned_writes(
                    reference.overload.op,
                    call_sample,
                    with_out_arguments(reference.overload.out, call_sample, named).call(wrap(overload.out)),
                )
                call_outputs = trees.tensors(written)
                already_written = {
                    n
                    for n in range(len(named))
                    if not (call_outputs[n].is_conj() or call_outputs[n].is_neg())
                }
                _store_results(call, rows, call_outputs, unspecified | already_written)
            else:
                _store_results(
                    call,
                    rows,
                    _returned_and_written_tensors(
                        reference, _with_copies_of_written(reference, copy), wrap(overload.op)
                    ),
                    unspecified,
                )
            if call % _CALLS_PER_ROUND == _CALLS_PER_ROUND - 1:
                retained_memory.record_allocated_bytes()

    first = run_operator(target, call_repeatedly, Sample(reference.sample.index, None))
    if not first.ok:
        if started_calls and cpu_accepts_form(reference, form):
            report_failed_call(
                target, recorder, reference.sample, first, f"one of {_CALLS} calls of the {form}"
            )
        return  # if the first call fails, other properties report the error
    _compare_stored_results(target, recorder, reference, rows, f"of the {form}")
    retained_memory.check(recorder, f"{_CALLS_PER_ROUND} calls of the {form}", reference.sample.index)
    if form == CallForm.FUNCTION:
        _check_in_threads(target, recorder, reference, copy, wrap)


def _with_copies_of_written(reference: OverloadReference, sample: Sample) -> Sample:
    """Return the sample for another call. If the call writes an argument, all its tensors are cloned."""
    return with_mapped_tensors(sample, torch.Tensor.clone) if reference.written else sample


def _returned_and_written_tensors(
    reference: OverloadReference, sample: Sample, op: Any
) -> list[torch.Tensor]:
    """Return the tensors that a call returns, and the tensors that it writes but does not return."""
    return trees.tensors(outputs_with_unreturned_writes(reference.overload.op, sample, sample.call(op)))


def _store_results(
    call: int, rows: list[torch.Tensor], results: list[torch.Tensor], omitted: Collection[int]
) -> None:
    """Copy each result of a call to the row with index ``call`` of its tensor in ``rows``.

    Results at the indices ``omitted`` are not copied: they are already stored, or their values and shapes are
    unspecified. A result may be a lazy conjugate or negative, so it is resolved first.
    """
    for number, (row, result) in enumerate(zip(rows, results, strict=True)):
        if number not in omitted:
            row[call].copy_(result.resolve_conj().resolve_neg())


def _compare_stored_results(
    target: Target, recorder: Recorder, reference: OverloadReference, rows: list[torch.Tensor], label: str
) -> None:
    """Compare the first stored result, and up to two results that differ from it, with the reference."""
    parts = trees.tensors(reference.outputs)
    for number, row in enumerate(rows):
        fetched = row.cpu()
        # Results that differ can still be correct: a sum without a fixed order may differ in its last bits.
        differing = (call for call in range(1, len(fetched)) if not same_bits(fetched[call], fetched[0]))
        for call in [0, *itertools.islice(differing, 2)]:
            values = [row[call] if i == number else part for i, part in enumerate(parts)]
            on_device = [value.to(target.torch_device) for value in values]
            compare_outputs(
                target,
                recorder,
                reference,
                _in_reference_structure(reference, on_device),
                label=f"call {call} {label}",
                policy=OVERLOADS,
            )


def _in_reference_structure(reference: OverloadReference, parts: list[torch.Tensor]) -> Any:
    """Return tensors in the structure of the reference's outputs."""
    remaining = iter(parts)
    return trees.tree_map(
        lambda leaf: next(remaining) if isinstance(leaf, torch.Tensor) else leaf, reference.outputs
    )


def _check_in_threads(
    target: Target, recorder: Recorder, reference: OverloadReference, copy: Sample, wrap: _Wrapper
) -> None:
    """Make calls in two threads at the same time; the second thread uses other values if possible."""
    changed = (
        None
        if is_unchecked(reference.subject)
        else reference_of_modified_call(reference, with_mapped_tensors(reference.sample, _reversed_floats))
    )
    members = [reference, reference if changed is None else changed]
    copies = [copy, copy_sample_to_device(target, recorder, members[1].sample)]
    rows = [
        [
            torch.empty((_CALLS_PER_THREAD, *part.shape), dtype=part.dtype, device=target.torch_device).fill_(
                1
            )
            for part in trees.tensors(member.outputs)
        ]
        for member in members
    ]
    errors: list[Exception] = []
    results: list[list[list[torch.Tensor]]] = [[] for _ in members]
    unspecified = relations.outputs_unspecified(base_name(reference.subject.name), reference.sample)
    together = threading.Barrier(len(members), timeout=_PATIENCE)

    # The threads make only the calls under test. The results are copied afterwards, because a device whose
    # copies into views are not safe for threads has a different defect.
    def call_repeatedly(thread_sample: Sample, returned: list[list[torch.Tensor]]) -> None:
        try:
            together.wait()
            with torch.no_grad():
                for _ in range(_CALLS_PER_THREAD):
                    returned.append(
                        _returned_and_written_tensors(
                            reference,
                            _with_copies_of_written(reference, thread_sample),
                            wrap(reference.subject.info.op),
                        )
                    )
        except Exception as error:
            errors.append(error)

    def run_threads(_: Any) -> None:
        threads = [
            threading.Thread(target=call_repeatedly, args=pair) for pair in zip(copies, results, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        # The streams of the threads may differ from the stream of this thread, so wait for all streams.
        if not target.is_cpu:
            target.synchronize()
        with torch.no_grad():
            for stored, returned in zip(rows, results, strict=True):
                for call, outputs in enumerate(returned):
                    _store_results(call, stored, outputs, unspecified)

    if copies[1] is None:
        return
    outcome = run_operator(target, run_threads, Sample(reference.sample.index, None))
    label = "of two threads at the same time"
    if not outcome.ok:
        report_failed_call(target, recorder, reference.sample, outcome, f"one of the calls {label}")
        return
    for member, into in zip(members, rows, strict=True):
        _compare_stored_results(target, recorder, member, into, label)


def _reversed_floats(tensor: torch.Tensor) -> torch.Tensor:
    return reversed_elements(tensor) if tensor.is_floating_point() or tensor.is_complex() else tensor


def _check_two_calls_of_same_sizes(
    target: Target, recorder: Recorder, reference: OverloadReference, wrap: _Wrapper
) -> None:
    """Make two calls with the same sizes and different values, and compare each with its reference."""
    if is_unchecked(reference.subject):
        return

    changed = reference_of_modified_call(reference, with_mapped_tensors(reference.sample, _reversed_floats))
    if changed is None:
        return
    for call in (reference, changed):
        copy = copy_sample_to_device(target, recorder, call.sample)
        if copy is not None:
            outcome = run_operator(target, wrap(reference.subject.info.op), copy)
            if outcome.ok:
                value = outputs_with_unreturned_writes(reference.overload.op, copy, outcome.value)
                compare_outputs(
                    target,
                    recorder,
                    call,
                    value,
                    label="a call after another call of the same sizes",
                    policy=OVERLOADS,
                )
