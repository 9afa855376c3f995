"""Run the call forms of an overload (function, in-place form and out=) with arguments in any layout."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.recorder import Recorder
from conformance.framework.storages import has_storage
from conformance.model.verdicts import Kind
from conformance.oracle import relations
from conformance.oracle.reference import CallForm
from conformance.properties.overloads._references import (
    OverloadReference,
    call_without_warnings,
    outputs_with_unreturned_writes,
    torch_overload,
)
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.properties.shared.comparison import OVERLOADS, compare_outputs
from conformance.properties.shared.cpu_control import Conclusion, with_cpu_control
from conformance.properties.shared.execution import copy_sample_to_device, report_failed_call, run_operator
from conformance.properties.shared.memory_layouts import EmbeddedTensor, Layout
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.overloads import TAKEN_FROM_OUT, Overload
from conformance.target.target import Target

#: The value of each element of out= before a call. If the results are indices, no correct result contains
#: this value, so an element that the call does not write is detected.
_UNWRITTEN = 77


def call_forms_of(target: Target, reference: OverloadReference) -> Iterator[CallForm]:
    """Yield the forms in which a call can be made on the target."""
    overload: Overload = reference.subject.info
    yield CallForm.FUNCTION
    if target.capable("inplace") and reference.has_in_place_reference:
        yield CallForm.IN_PLACE
    if target.capable("out_variants") and _out_can_be_allocated(overload, reference):
        yield CallForm.OUT


def _out_can_be_allocated(overload: Overload, reference: OverloadReference) -> bool:
    """Return whether each result can be allocated before the call: every result is a strided tensor."""
    parts = list(trees.leaves(reference.returned))
    if overload.out is None or len(parts) != len(overload.outs):
        return False
    return all(isinstance(part, torch.Tensor) and part.layout is torch.strided for part in parts)


def new_out_tensors(target: Target, recorder: Recorder, reference: OverloadReference) -> list[torch.Tensor]:
    """Return one uninitialised tensor on the target for each result, to be passed as out=.

    If the results have 16 bits, statistics among them may have a wider dtype, in which the device
    accumulates. The dtypes of the statistics are therefore taken from a call of the function on the device.
    """
    parts = trees.tensors(reference.returned)
    dtypes = [part.dtype for part in parts]
    is_16_bit = reference.dtype in (torch.bfloat16, torch.float16)
    statistics = (
        relations.outputs_with_unspecified_dtype(base_name(reference.subject.name))
        if is_16_bit
        else frozenset()
    )
    copy = (
        copy_sample_to_device(target, recorder.scratch(), reference.sample, check=False)
        if statistics
        else None
    )
    if copy is not None:
        outcome = run_operator(target, reference.subject.info.op, copy)
        device_dtypes = [tensor.dtype for tensor in trees.tensors(outcome.value)] if outcome.ok else []
        if len(device_dtypes) == len(parts):
            dtypes = [device_dtypes[n] if n in statistics else dtype for n, dtype in enumerate(dtypes)]
    return [
        torch.empty(part.shape, dtype=dtype, device=target.torch_device)
        for part, dtype in zip(parts, dtypes, strict=True)
    ]


@dataclasses.dataclass
class ArgumentLayout:
    """The layout of one argument of a call: the layout, its name in messages, and the index of the tensor."""

    layout: Layout
    layout_name: str
    tensor_index: int


def check_call(
    target: Target,
    recorder: Recorder,
    reference: OverloadReference,
    form: CallForm,
    argument_layout: ArgumentLayout | None = None,
    *,
    written_layout: Layout | None = None,
) -> Conclusion:
    """Run one call form on the target and compare outputs, aliasing and written memory with the reference.

    ``argument_layout`` places one argument in another layout; ``written_layout`` is the layout of the memory
    that the form writes. Arguments that the call does not write, and the memory around written tensors, must
    not change. The documentation does not describe single overloads, so a failure counts only if the CPU
    passes the same check.
    """
    refused = False

    def attempt_form(on: Target, scratch: Recorder, overload: Overload) -> None:
        nonlocal refused
        both_kernels = has_separate_autograd_kernel(on, reference)
        for inference in (False, True) if both_kernels else (False,):
            form_attempt = _CallFormAttempt(
                on, scratch, reference, overload, form, argument_layout, written_layout, inference
            )
            form_attempt.call_and_compare()
            refused |= form_attempt.refused

    conclusion = with_cpu_control(
        target,
        recorder,
        reference,
        attempt_form,
        lambda: cpu_accepts_form(reference, form, argument_layout, written_layout),
    )
    return Conclusion.DEVICE_REFUSED if refused and conclusion.is_conclusive else conclusion


def has_separate_autograd_kernel(target: Target, reference: OverloadReference) -> bool:
    """Return whether the target has one kernel for an overload and a separate kernel for its autograd key.

    The autograd kernel may call kernels of other overloads. The kernel of the overload is therefore certain
    to run only in inference mode.
    """
    return _device_has_both_kernels(target.torch_device.type, str(reference.overload.op.name()))


@functools.cache
def _device_has_both_kernels(device_type: str, name: str) -> bool:
    key = str(torch._C._dispatch_key_for_device(device_type))
    return all(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, dispatch_key)
        for dispatch_key in (key, f"Autograd{key}")
    )


@dataclasses.dataclass
class _CallFormAttempt:
    """One call on a target, in one form and layout."""

    target: Target
    recorder: Recorder
    reference: OverloadReference
    overload: Overload
    form: CallForm
    argument_layout: ArgumentLayout | None
    written_layout: Layout | None
    #: Whether the call is made in inference mode.
    inference: bool = False

    def __post_init__(self) -> None:
        self.label = f"the {self.form}"
        if self.inference:
            self.label += " in inference mode"
        if self.argument_layout is not None:
            self.label += (
                f" with {self.argument_layout.layout_name} for tensor {self.argument_layout.tensor_index}"
            )
        if self.form == CallForm.IN_PLACE and self.reference.in_place is not None:
            self.reference = self.reference.in_place
        self.refused = False
        self.embedded_tensors: list[EmbeddedTensor] = []
        self.written: set[int] = set(self.reference.written)

    def call_and_compare(self) -> None:
        """Make the call. Compare its results, aliasing and written memory with the reference."""
        reference, form = self.reference, self.form
        copy = copy_sample_to_device(self.target, self.recorder, reference.sample, check=False)
        device_sample = (
            None if copy is None else _with_argument_layout(copy, self.argument_layout, self.embedded_tensors)
        )
        if copy is None or device_sample is None:
            self.refused = True
            return
        outs: list[torch.Tensor] = []
        op = self.overload.op
        if form == CallForm.IN_PLACE:
            op = self.overload.in_place
            device_sample = device_sample.replace(input=self._in_written_layout(device_sample.input))
            self.written.add(0)
        elif form == CallForm.OUT:
            op = self.overload.out
            new_outs = new_out_tensors(self.target, self.recorder, reference)
            outs = [self._in_written_layout(tensor.fill_(_UNWRITTEN)) for tensor in new_outs]
            device_sample = with_out_arguments(
                reference.overload.out, device_sample, dict(zip(self.overload.outs, outs, strict=True))
            )
        with torch.inference_mode() if self.inference else contextlib.nullcontext():
            outcome = run_operator(self.target, op, device_sample)
        if not outcome.ok:
            assert outcome.error is not None
            if relations.may_device_refuse(base_name(reference.subject.name), device_sample):
                self.refused = True
                self.recorder.allow_nothing_compared(
                    "devices may differ in the calls of the overload that they accept"
                )
                self.recorder.note(f"the device does not accept the call: {one_line(outcome.error)[:200]}")
            elif cpu_accepts_form(reference, form, self.argument_layout, self.written_layout):
                report_failed_call(self.target, self.recorder, reference.sample, outcome, self.label)
            else:
                self.refused = True
                self.recorder.allow_nothing_compared("the CPU refuses the call in that form")
            return
        value = outputs_with_unreturned_writes(reference.overload.op, device_sample, outcome.value)
        agrees = self._compare_outputs(value, f"the result of {self.label}")
        if form == CallForm.FUNCTION:
            self._check_new_memory(outcome.value, device_sample)
            self._check_returns_written_argument(outcome.value, device_sample)
        if form == CallForm.IN_PLACE:
            same = outcome.value is device_sample.input
            self._record_fact(same, Kind.ALIASING, "returns another tensor than its input")
            if agrees and not same:
                self._compare_outputs(device_sample.input, f"the input after {self.label}")
        elif form == CallForm.OUT:
            returned = [outcome.value] if isinstance(outcome.value, torch.Tensor) else list(outcome.value)
            same = all(tensor is out for tensor, out in zip(returned, outs, strict=True))
            self._record_fact(same, Kind.ALIASING, "returns other tensors than out=")
            if agrees and not same:
                outputs_in_out = outputs_with_unreturned_writes(
                    reference.overload.op, device_sample, arrange_in_structure_of(reference.returned, outs)
                )
                self._compare_outputs(outputs_in_out, f"out= of {self.label}")
        for position, memory in enumerate(self.embedded_tensors):
            whole = (
                position == 0
                and self.argument_layout is not None
                and self.argument_layout.tensor_index not in self.written
            )
            unchanged = memory.is_unchanged(whole=whole)
            self._record_fact(unchanged, Kind.STATE, "has changed the memory around one of its tensors")
        check_unwritten_arguments(self.recorder, reference.sample, copy, self.written, label=self.label)

    def _check_new_memory(self, returned: Any, sample: Sample) -> None:
        """Check that results share no memory with arguments, unless the schema declares an alias."""
        returns = self.reference.overload.op._schema.returns
        if any(schema_return.alias_info is not None for schema_return in returns):
            return
        for value in trees.tensors(returned):
            shared = (
                value.numel()
                and has_storage(value)
                and any(torch_testing_internals.shares_memory(value, tensor) for tensor in sample.tensors())
            )
            self._record_fact(not shared, Kind.ALIASING, "returns the memory of an argument")

    def _check_returns_written_argument(self, returned: Any, sample: Sample) -> None:
        """Check that a result that the schema declares to be a written argument is that argument."""
        schema = self.reference.overload.op._schema
        values = [sample.input, *sample.args]
        parts = [returned] if len(schema.returns) == 1 else list(returned or ())
        for schema_return, part in zip(schema.returns, parts, strict=False):
            if (
                schema_return.alias_info is None
                or not schema_return.alias_info.is_write
                or not isinstance(part, torch.Tensor)
            ):
                continue
            for position, argument in enumerate(schema.arguments):
                value = values[position] if position < len(values) else sample.kwargs.get(argument.name)
                info = argument.alias_info
                if info is not None and info.after_set == schema_return.alias_info.after_set:
                    self._record_fact(part is value, Kind.ALIASING, "returns another tensor than it wrote")

    def _in_written_layout(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor in ``written_layout``, or unchanged if the tensor cannot have this layout."""
        embedded = None if self.written_layout is None else self.written_layout(tensor)
        if embedded is None:
            return tensor
        self.embedded_tensors.append(embedded)
        return embedded.view

    def _compare_outputs(self, actual: Any, label: str) -> bool:
        return compare_outputs(
            self.target, self.recorder, self.reference, actual, label=label, policy=OVERLOADS
        )

    def _record_fact(self, holds: bool, kind: Kind, text: str) -> None:
        message = "" if holds else f"{self.label} {text}."
        fact(self.recorder, holds, kind, message, sample=self.reference.sample.index)


def arrange_in_structure_of(like: Any, parts: list[torch.Tensor]) -> Any:
    """Return ``parts`` in the structure of ``like``: a single tensor, a list or a tuple."""
    if isinstance(like, torch.Tensor):
        return parts[0]
    return list(parts) if isinstance(like, list) else tuple(parts)


def with_out_arguments(op: Any, sample: Sample, outs: dict[str, torch.Tensor]) -> Sample:
    """Return the call with ``outs`` as its out= arguments, without the arguments that out= replaces."""
    names = {argument.name for argument in op._schema.arguments}
    kwargs = {key: value for key, value in sample.kwargs.items() if key not in TAKEN_FROM_OUT or key in names}
    return sample.replace(kwargs={**kwargs, **outs})


def cpu_accepts_form(
    reference: OverloadReference,
    form: CallForm,
    argument_layout: ArgumentLayout | None = None,
    written_layout: Layout | None = None,
) -> bool:
    """Return whether the CPU accepts the call in this form and with these layouts."""
    host_or_none = _with_argument_layout(to_host(reference.sample), argument_layout, [])
    overload = torch_overload(reference.subject)
    if host_or_none is None:
        return False
    host = host_or_none
    if form == CallForm.FUNCTION:
        return attempt(lambda: call_without_warnings(overload.op, host)).ok
    if form == CallForm.IN_PLACE:
        if written_layout is not None:
            host = host.replace(input=_view_in_layout(written_layout, host.input))
        return attempt(lambda: call_without_warnings(overload.in_place, host)).ok
    parts = [torch.ones(part.shape, dtype=part.dtype) for part in trees.tensors(reference.returned)]
    outs = [part if written_layout is None else _view_in_layout(written_layout, part) for part in parts]
    named = dict(zip(overload.outs, outs, strict=True))
    return attempt(
        lambda: call_without_warnings(overload.out, with_out_arguments(overload.out, host, named))
    ).ok


def _view_in_layout(layout: Layout, tensor: torch.Tensor) -> torch.Tensor:
    embedded = layout(tensor)
    return tensor if embedded is None else embedded.view


def _with_argument_layout(
    sample: Sample, argument_layout: ArgumentLayout | None, embedded_tensors: list[EmbeddedTensor]
) -> Sample | None:
    """Return the call with one tensor placed in ``argument_layout``, and append this tensor to
    ``embedded_tensors``.

    Return the call unchanged if ``argument_layout`` is None. Return None if the tensor cannot have the
    layout.
    """
    if argument_layout is None:
        return sample
    tensor = sample.tensors()[argument_layout.tensor_index]
    embedded = argument_layout.layout(tensor)
    if embedded is None:
        return None
    embedded_tensors.append(embedded)
    input, args, kwargs = trees.tree_map(lambda v: embedded.view if v is tensor else v, sample.arguments)
    return sample.replace(input=input, args=args, kwargs=kwargs)
