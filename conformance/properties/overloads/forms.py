"""Property: every form of an overload returns the same values, in the memory that its schema names."""

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
from conformance.oracle.reference import CallForm
from conformance.properties.overloads._call_forms import (
    arrange_in_structure_of,
    call_forms_of,
    check_call,
    new_out_tensors,
    with_out_arguments,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    dtypes_for_property,
    outputs_with_unreturned_writes,
    overload_reference,
    references,
    references_of_handmade_calls,
)
from conformance.properties.overloads._result_strides import check_strides
from conformance.properties.shared.comparison import OVERLOADS, compare_outputs
from conformance.properties.shared.cpu_control import with_cpu_control
from conformance.properties.shared.execution import copy_sample_to_device, report_failed_call, run_operator
from conformance.samples.handmade_calls.identity import IDENTITY_CALLS
from conformance.samples.operators import dtype_name
from conformance.subjects.overloads import Overload
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 4
#: Overloads that are not called with an empty out=: torch's own kernel writes to the tensor and crashes.
_EMPTY_OUT_CRASHES_TORCH = frozenset({"rrelu_with_noise"})
#: Internal overloads to which operators forward a dimension unchanged, even if it is negative.
_ACCEPTS_NEGATIVE_DIMS = re.compile(r"_(log_)?softmax(_backward_data)?$")


@register(
    "overload-forms",
    subject_kind="overload",
    statement=(
        "As a function, in place and with out=, an overload returns the CPU's results. A result shares "
        "memory with an argument exactly if the schema declares an alias. An empty out= is resized. Strides "
        "equal the strides of torch's Meta kernels. All of this also holds for calls that return the values "
        "of an argument."
    ),
    documentation="notes/out.html",
    basis="consistency",
    ground="Function, in-place form and out= of one overload must agree, also in inference mode",
    level="core",
    applies=functools.partial(dtypes_for_property, "overload-forms"),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call each form on each sample and compare values, aliasing and strides with the reference."""
    forms_in_inference_mode: set[CallForm] = set()
    for reference in references(target, subject, recorder, _LIMIT):
        for form in call_forms_of(target, reference):
            check_call(target, recorder, reference, form)
            if form not in forms_in_inference_mode:
                with torch.inference_mode():  # skips the autograd kernel, which may return an argument
                    if check_call(target, recorder, reference, form).is_conclusive:
                        forms_in_inference_mode.add(form)
            if form == CallForm.OUT and subject.name not in _EMPTY_OUT_CRASHES_TORCH:
                with_cpu_control(
                    target,
                    recorder,
                    reference,
                    functools.partial(_check_empty_out_is_resized, reference=reference),
                )
        with_cpu_control(target, recorder, reference, functools.partial(_check_aliasing, reference=reference))
        check_strides(target, recorder, reference)
        for renumbered in _with_dims_from_other_end(reference):
            for form in call_forms_of(target, renumbered):
                check_call(target, recorder, renumbered, form)
    for identity_call in references_of_handmade_calls(target, subject, recorder.id.dtype, IDENTITY_CALLS):
        check_call(target, recorder, identity_call, CallForm.FUNCTION)


def _check_empty_out_is_resized(
    target: Target, recorder: Recorder, overload: Overload, reference: OverloadReference
) -> None:
    """Call the overload with an empty out= and compare the resized out= with the reference."""
    copy = copy_sample_to_device(target, recorder, reference.sample)
    if copy is None:
        return
    outs = [out.new_empty(0) for out in new_out_tensors(target, recorder, reference)]
    named = dict(zip(overload.outs, outs, strict=True))
    outcome = run_operator(target, overload.out, with_out_arguments(reference.overload.out, copy, named))
    if outcome.ok:
        outputs = outputs_with_unreturned_writes(
            reference.overload.op, copy, arrange_in_structure_of(reference.returned, outs)
        )
        label = "the out= that was empty before the call"
        compare_outputs(target, recorder, reference, outputs, label=label, policy=OVERLOADS)
    else:
        report_failed_call(target, recorder, reference.sample, outcome, "the form with an empty out=")


def _check_aliasing(
    target: Target, recorder: Recorder, overload: Overload, reference: OverloadReference
) -> None:
    """Check that results share memory with arguments exactly if the schema says so."""
    returns = reference.overload.op._schema.returns
    if any(r.alias_info is not None and r.alias_info.is_write for r in returns):
        return
    viewed = any(r.alias_info is not None for r in returns)
    if viewed and not target.capable("views"):
        return
    copy = copy_sample_to_device(target, recorder, reference.sample)
    outcome = None if copy is None else run_operator(target, overload.op, copy)
    if copy is None or outcome is None or not outcome.ok:
        return
    for number, value in enumerate(trees.tensors(outcome.value)):
        if value.numel():
            shared = any(
                torch_testing_internals.shares_memory(value, argument) for argument in copy.tensors()
            )
            text = "shares memory with an argument" if shared else "is a copy, not a view"
            message = f"part {number} of the result {text}."
            fact(recorder, shared == viewed, Kind.ALIASING, message, sample=reference.sample.index)


def requires_nonnegative_dims(name: str) -> bool:
    """Return whether an internal overload requires its callers to count dimensions from the start."""
    return name.startswith("_") and not _ACCEPTS_NEGATIVE_DIMS.match(name)


def _with_dims_from_other_end(reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield the reference of the same call with dimensions counted from the other end."""
    schema = reference.overload.op._schema
    tensors = reference.sample.tensors()
    if not tensors or requires_nonnegative_dims(reference.subject.name):
        return
    rank = tensors[0].dim()
    call_arguments = [reference.sample.input, *reference.sample.args]
    changed = False
    for position, argument in enumerate(schema.arguments[: len(call_arguments)]):
        if argument.name not in ("dim", "dim0", "dim1", "dims", "axis") or rank == 0:
            continue
        value = call_arguments[position]
        if isinstance(value, int) and not isinstance(value, bool):
            call_arguments[position], changed = _dim_from_other_end(value, rank), True
        elif isinstance(value, (list, tuple)) and value:
            call_arguments[position], changed = [_dim_from_other_end(dim, rank) for dim in value], True
    if changed:
        renumbered = overload_reference(
            reference.subject,
            dtype_name(reference.dtype),
            reference.sample.replace(input=call_arguments[0], args=tuple(call_arguments[1:])),
        )
        if renumbered is not None and _same_shapes(renumbered.outputs, reference.outputs):
            yield renumbered


def _dim_from_other_end(dim: int, rank: int) -> int:
    return dim - rank if dim >= 0 else dim + rank


def _same_shapes(first: Any, second: Any) -> bool:
    return [t.shape for t in trees.tensors(first)] == [t.shape for t in trees.tensors(second)]
