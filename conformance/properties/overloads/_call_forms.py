"""The forms of a call: as a function, in place, and with ``out=``, each into memory of any layout."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt, one_line, report_error
from conformance.framework.compare import fact
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle import relations
from conformance.properties.overloads._references import (
    OverloadReference,
    call_without_warnings,
    compare_overload_outputs,
    is_reproducible_on_cpu,
    outputs_with_hidden_writes,
    torch_overload,
)
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.properties.shared.execution import copy_in, report_failed_call, run
from conformance.properties.shared.memory_layouts import EmbeddedTensor, Layout
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.overloads import TAKEN_FROM_OUT, Overload
from conformance.target.target import Target

#: How a note begins about a statement that the CPU itself does not keep to.
CPU_FAILS_TOO = "the CPU does not keep to this itself"

#: What out= holds before a call: no index of the calls, so that it shows where nothing was written.
_UNWRITTEN = 77

FUNCTION, IN_PLACE, OUT = "function", "in-place form", "form with out="


def forms_of(target: Target, reference: OverloadReference) -> Iterator[str]:
    """Yield the forms in which a call can be made on the target."""
    overload: Overload = reference.subject.info
    yield FUNCTION
    if target.capable("inplace") and reference.has_in_place_reference:
        yield IN_PLACE
    if target.capable("out_variants") and _out_can_be_allocated(overload, reference):
        yield OUT


def _out_can_be_allocated(overload: Overload, reference: OverloadReference) -> bool:
    """Return whether the dtypes, sizes and layouts of all results are known before the call."""
    parts = list(trees.leaves(reference.returned))
    if overload.out is None or len(parts) != len(overload.outs):
        return False
    return all(isinstance(part, torch.Tensor) and part.layout is torch.strided for part in parts)


def new_out_tensors(target: Target, recorder: Recorder, reference: OverloadReference) -> list[torch.Tensor]:
    """Return what a form with out= can write to: a tensor on the target for each result, of no fixed values.

    Statistics of 16-bit numbers may have the dtype in which the device accumulates; its function says which.
    """
    parts = trees.tensors(reference.returned)
    dtypes = [part.dtype for part in parts]
    short = reference.dtype in (torch.bfloat16, torch.float16)
    free = relations.statistics(base_name(reference.subject.name)) if short else frozenset()
    copy = copy_in(target, recorder.trial(), reference.sample, check=False) if free else None
    if copy is not None:
        outcome = run(target, reference.subject.info.op, copy)
        own = [one.dtype for one in trees.tensors(outcome.value)] if outcome.ok else []
        if len(own) == len(parts):
            dtypes = [own[n] if n in free else dtype for n, dtype in enumerate(dtypes)]
    return [
        torch.empty(part.shape, dtype=dtype, device=target.torch_device)
        for part, dtype in zip(parts, dtypes, strict=True)
    ]


#: Kinds of facts that are the same whatever the values are.
_INDEPENDENT_OF_VALUES = frozenset({Kind.ALIASING, Kind.STATE})
#: Kinds of failures after which nothing else was looked at.
_ENDS_THE_CHECK = frozenset({Kind.EXCEPTION, Kind.REFUSED, Kind.ERROR_TYPE})


@dataclasses.dataclass
class ArgumentLayout:
    """A layout for one argument of a call: the tensor's number, and a word for messages."""

    layout: Layout
    word: str
    place: int


def check_call(
    target: Target,
    recorder: Recorder,
    reference: OverloadReference,
    form: str,
    laid: ArgumentLayout | None = None,
    *,
    into: Layout | None = None,
) -> bool:
    """Make a call in a form on the target, compare everything it did with the CPU's answer, and return
    whether that says something: the CPU takes the call in that form, and keeps to what failed.

    ``laid`` gives one argument another layout; ``into`` is the layout of what the form writes besides. What a
    call does not write must stay as it was, the memory around what it writes included. No document describes
    single overloads, so that nothing is a failure that the CPU does not keep to itself.
    """
    refused = False

    def attempt_form(on: Target, scratch: Recorder, overload: Overload) -> None:
        nonlocal refused
        twice = has_both_kernels(on, reference)
        for inference in (False, True) if twice else (False,):
            one = _Attempt(on, scratch, reference, overload, form, laid, into, inference)
            one.run()
            refused |= one.refused

    taken = with_cpu_control(
        target, recorder, reference, attempt_form, lambda: cpu_accepts_form(reference, form, laid, into)
    )
    return taken and not refused


def with_cpu_control(
    target: Target,
    recorder: Recorder,
    reference: OverloadReference,
    statement: Callable[[Target, Recorder, Overload], None],
    defined: Callable[[], bool] = lambda: True,
) -> bool:
    """Check a statement on the target; if it fails there and the CPU does not keep to it, that is a note.

    Returns whether the call says something: the CPU takes it, and keeps to the statement if it failed.
    """
    trial = recorder.trial()
    ran = attempt(lambda: statement(target, trial, reference.subject.info))
    if ran.error is not None:
        report_error(
            target, trial, ran.error, label="preparing or reading a call", sample=reference.sample.index
        )
    copied = recorder.trial()
    if trial.failed and copy_in(target, copied, reference.sample) is None:
        recorder.absorb(copied)  # the call is not to blame
        return True
    if trial.failed and not defined():
        recorder.idle("the CPU refuses the call in that form")
        return False
    if trial.failed:
        twin = recorder.trial()
        statement(target.on_cpu(), twin, torch_overload(reference.subject))
        if twin.failed:
            recorder.idle("the CPU does not keep to it itself")
            recorder.note(f"{CPU_FAILS_TOO}: {twin.first_failure[:200]}")
            independent = trial.only(_INDEPENDENT_OF_VALUES - twin.kinds)
            if independent.failed and twin.kinds.isdisjoint(_ENDS_THE_CHECK) and reference.reproducible:
                recorder.absorb(independent)
            return False
        # Before a failure counts the CPU is asked anew: one look may miss that its answer depends on memory.
        if not is_reproducible_on_cpu(reference):
            recorder.idle("the CPU's result depends on what its memory held before")
            recorder.note("the CPU's result depends on what its memory held before")
            return False
    recorder.absorb(trial)
    return True


def has_both_kernels(target: Target, reference: OverloadReference) -> bool:
    """Return whether the target has a kernel for an overload and one for its autograd.

    That of autograd may compose other kernels, so that only inference mode calls the first.
    """
    return _has_both(target.torch_device.type, str(reference.overload.op.name()))


@functools.cache
def _has_both(device_type: str, name: str) -> bool:
    key = str(torch._C._dispatch_key_for_device(device_type))
    return all(torch._C._dispatch_has_kernel_for_dispatch_key(name, one) for one in (key, f"Autograd{key}"))


@dataclasses.dataclass
class _Attempt:
    """One call on a target, in one form and layout."""

    target: Target
    recorder: Recorder
    found: OverloadReference
    overload: Overload
    form: str
    laid: ArgumentLayout | None
    into: Layout | None
    #: Whether the call is made in inference mode.
    inference: bool = False

    def __post_init__(self) -> None:
        self.what = f"the {self.form}"
        if self.inference:
            self.what += " in inference mode"
        if self.laid is not None:
            self.what += f" with {self.laid.word} for tensor {self.laid.place}"
        if self.form == IN_PLACE and self.found.in_place is not None:
            self.found = self.found.in_place
        self.refused = False
        self.placed: list[EmbeddedTensor] = []
        self.written: set[int] = set(self.found.written)

    def run(self) -> None:
        """Make the call and compare."""
        found, form = self.found, self.form
        copy = copy_in(self.target, self.recorder, found.sample, check=False)
        given = None if copy is None else _with_argument_layout(copy, self.laid, self.placed)
        if copy is None or given is None:
            self.refused = True
            return
        outs: list[torch.Tensor] = []
        op = self.overload.op
        if form == IN_PLACE:
            op = self.overload.in_place
            given = given.replace(input=self._inside(given.input))
            self.written.add(0)
        elif form == OUT:
            op = self.overload.out
            fresh = new_out_tensors(self.target, self.recorder, found)
            outs = [self._inside(one.fill_(_UNWRITTEN)) for one in fresh]
            given = with_outs(found.overload.out, given, dict(zip(self.overload.outs, outs, strict=True)))
        with torch.inference_mode() if self.inference else contextlib.nullcontext():
            outcome = run(self.target, op, given)
        if not outcome.ok:
            assert outcome.error is not None
            if relations.may_be_refused(base_name(found.subject.name), given):
                self.refused = True
                self.recorder.idle("devices differ in the calls of the overload that they take")
                self.recorder.note(f"the device takes no such call: {one_line(outcome.error)[:200]}")
            elif cpu_accepts_form(found, form, self.laid, self.into):
                report_failed_call(self.target, self.recorder, found.sample, outcome, self.what)
            else:
                self.refused = True
                self.recorder.idle("the CPU refuses the call in that form")
            return
        value = outputs_with_hidden_writes(found.overload.op, given, outcome.value)
        good = self._agrees(value, f"the result of {self.what}")
        if form == FUNCTION:
            self._is_new(outcome.value, given)
            self._is_what_it_wrote(outcome.value, given)
        if form == IN_PLACE:
            same = outcome.value is given.input
            self._fact(same, Kind.ALIASING, "returns another tensor than its input")
            if good and not same:
                self._agrees(given.input, f"the input after {self.what}")
        elif form == OUT:
            returned = [outcome.value] if isinstance(outcome.value, torch.Tensor) else list(outcome.value)
            same = all(one is other for one, other in zip(returned, outs, strict=True))
            self._fact(same, Kind.ALIASING, "returns other tensors than out=")
            if good and not same:
                into = outputs_with_hidden_writes(
                    found.overload.op, given, in_structure_of(found.returned, outs)
                )
                self._agrees(into, f"out= of {self.what}")
        for place, memory in enumerate(self.placed):
            whole = place == 0 and self.laid is not None and self.laid.place not in self.written
            kept = memory.kept(whole=whole)
            self._fact(kept, Kind.STATE, "has changed memory beside a tensor that it was given")
        check_unwritten_arguments(self.recorder, found.sample, copy, self.written, label=self.what)

    def _is_new(self, returned: Any, given: Sample) -> None:
        """Check that what the schema calls a new tensor shares no memory with an argument."""
        returns = self.found.overload.op._schema.returns
        if any(one.alias_info is not None for one in returns):
            return
        for value in trees.tensors(returned):
            shared = value.numel() and any(
                torch_testing_internals.shares_memory(value, one) for one in given.tensors()
            )
            self._fact(not shared, Kind.ALIASING, "returns the memory of an argument")

    def _is_what_it_wrote(self, returned: Any, given: Sample) -> None:
        """Check that what the schema calls a written argument is that argument."""
        schema = self.found.overload.op._schema
        values = [given.input, *given.args]
        parts = [returned] if len(schema.returns) == 1 else list(returned or ())
        for one, part in zip(schema.returns, parts, strict=False):
            if one.alias_info is None or not one.alias_info.is_write or not isinstance(part, torch.Tensor):
                continue
            for position, argument in enumerate(schema.arguments):
                value = values[position] if position < len(values) else given.kwargs.get(argument.name)
                info = argument.alias_info
                if info is not None and info.after_set == one.alias_info.after_set:
                    self._fact(part is value, Kind.ALIASING, "returns another tensor than it wrote")

    def _inside(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in the layout of what is written."""
        inside = None if self.into is None else self.into(tensor)
        if inside is None:
            return tensor
        self.placed.append(inside)
        return inside.view

    def _agrees(self, actual: Any, label: str) -> bool:
        return compare_overload_outputs(self.target, self.recorder, self.found, actual, label)

    def _fact(self, holds: bool, kind: Kind, text: str) -> None:
        message = "" if holds else f"{self.what} {text}."
        fact(self.recorder, holds, kind, message, sample=self.found.sample.index)


def in_structure_of(like: Any, parts: list[torch.Tensor]) -> Any:
    """Return tensors as one, a tuple or a list, as the CPU returned its results."""
    if isinstance(like, torch.Tensor):
        return parts[0]
    return list(parts) if isinstance(like, list) else tuple(parts)


def with_outs(op: Any, sample: Sample, outs: dict[str, torch.Tensor]) -> Sample:
    """Return a call of a form with its results named, without the arguments that these stand for."""
    names = {argument.name for argument in op._schema.arguments}
    kwargs = {key: value for key, value in sample.kwargs.items() if key not in TAKEN_FROM_OUT or key in names}
    return sample.replace(kwargs={**kwargs, **outs})


def cpu_accepts_form(
    reference: OverloadReference, form: str, laid: ArgumentLayout | None = None, into: Layout | None = None
) -> bool:
    """Return whether the CPU takes the call in that form and layout."""
    laid_out = _with_argument_layout(to_host(reference.sample), laid, [])
    overload = torch_overload(reference.subject)
    if laid_out is None:
        return False
    host = laid_out
    if form == FUNCTION:
        return attempt(lambda: call_without_warnings(overload.op, host)).ok
    if form == IN_PLACE:
        if into is not None:
            host = host.replace(input=_view_in_layout(into, host.input))
        return attempt(lambda: call_without_warnings(overload.in_place, host)).ok
    parts = [torch.ones(part.shape, dtype=part.dtype) for part in trees.tensors(reference.returned)]
    outs = [part if into is None else _view_in_layout(into, part) for part in parts]
    named = dict(zip(overload.outs, outs, strict=True))
    return attempt(lambda: call_without_warnings(overload.out, with_outs(overload.out, host, named))).ok


def _view_in_layout(layout: Layout, tensor: torch.Tensor) -> torch.Tensor:
    inside = layout(tensor)
    return tensor if inside is None else inside.view


def _with_argument_layout(
    sample: Sample, laid: ArgumentLayout | None, placed: list[EmbeddedTensor]
) -> Sample | None:
    """Return the call with one tensor put into another layout, appended to ``placed``; None if it cannot."""
    if laid is None:
        return sample
    tensor = sample.tensors()[laid.place]
    inside = laid.layout(tensor)
    if inside is None:
        return None
    placed.append(inside)
    input, args, kwargs = trees.tree_map(lambda v: inside.view if v is tensor else v, sample.arguments)
    return sample.replace(input=input, args=args, kwargs=kwargs)
