"""Property: a view shares memory and version counter with its base and has the CPU's geometry."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt, report_error
from conformance.framework.compare import compare_exact, compare_metadata, fact, to_host_tensor
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.storages import share_storage
from conformance.model.verdicts import Basis, Kind
from conformance.properties.shared.basis import basis_of_aliasing
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import first_dtypes, unmodified_info
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    samples_with_references,
)
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 6


@functools.cache
def may_alias(name: str) -> bool:
    """Return whether a schema of an aten operator declares a result that aliases an unwritten input.

    ``_copy`` at the end of the name is ignored.
    """
    base = name.removesuffix("_copy")
    packet = getattr(torch.ops.aten, base, None)
    if packet is None or not hasattr(packet, "overloads"):
        return name in (
            "T",
            "H",
            "mT",
            "mH",
            "real",
            "imag",
            "__getitem__",
            "split",
            "atleast_1d",
            "atleast_2d",
        )
    for overload in packet.overloads():
        for result in getattr(packet, overload)._schema.returns:
            if result.alias_info is not None and not result.alias_info.is_write:
                return True
    return False


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not may_alias(subject.info.name):
        return []
    return first_dtypes(target, subject, ("float32", "complex64", "int64"), 2)


@register(
    "views",
    subject_kind="operator",
    statement=(
        "A result aliases its input on the device exactly if it does so on the CPU, with the same geometry."
    ),
    documentation="tensor_view.html",
    level="core",
    applies=dtypes_to_check,
    capabilities=("views",),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare the aliasing and geometry of results with the CPU's results, and write to a view."""
    reference = unmodified_info(subject)
    for sample, _ in samples_with_references(target, subject, recorder, LIMIT):
        if not isinstance(sample.input, torch.Tensor) or sample.input.layout is not torch.strided:
            recorder.compared(1)
            continue
        host = to_host(sample)
        with torch_testing_internals.silence_warnings(), torch.no_grad():
            reference_call = attempt(functools.partial(host.call, reference.op))
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None or not reference_call.ok:
            continue
        outcome = run_operator(target, subject.info.op, copy)
        if not outcome.ok:
            report_failed_call(target, recorder, sample, outcome)
            continue
        _compare_aliasing_and_geometry(
            target, recorder, sample, host, copy, reference_call.value, outcome.value
        )


def _elements_overlap(tensor: torch.Tensor) -> bool:
    """Return True if elements of a tensor share memory, as after ``expand``.

    The page of ``expand`` says to clone such a tensor before a write.
    """
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))


def _compare_aliasing_and_geometry(
    target: Target,
    recorder: Recorder,
    sample: Sample,
    host: Sample,
    copy: Sample,
    expected: Any,
    actual: Any,
) -> None:
    """Compare aliasing with the input and geometry of each result, and the effect of a write to one view.

    If the device's tensors have no storage, only the write shows whether memory is shared.
    """
    index = sample.index
    for output_index, (expected_output, actual_output) in enumerate(
        zip(trees.tensors(expected), trees.tensors(actual), strict=False)
    ):
        if expected_output.layout is not torch.strided or actual_output.layout is not torch.strided:
            continue
        label = f"output {output_index}"
        shared, is_shared = (
            share_storage(expected_output, host.input),
            share_storage(actual_output, copy.input),
        )
        difference = "shares no memory" if shared else "shares memory"
        message = f"{label} {difference} with the input, unlike on the CPU."
        if is_shared is not None:
            basis = basis_of_aliasing(recorder.id.case.subject)
            fact(recorder, shared == is_shared, Kind.ALIASING, message, sample=index, basis=basis)
        if not shared or is_shared is False:
            continue
        compare_metadata(recorder, actual_output, expected_output, label=label, sample=index, stride=True)
        offset, expected_offset = actual_output.storage_offset(), expected_output.storage_offset()
        message = f"{label} is at offset {offset}, expected {expected_offset}."
        same = offset == expected_offset or not actual_output.numel() or not recorder.compares_strides
        fact(recorder, same, Kind.METADATA, message, sample=index)
    writable = [
        (expected_output, actual_output)
        for expected_output, actual_output in zip(
            trees.tensors(expected), trees.tensors(actual), strict=False
        )
        if expected_output.layout is torch.strided
        and share_storage(expected_output, host.input)
        and share_storage(actual_output, copy.input) is not False
        and expected_output.numel()
    ]
    if not writable:
        return
    expected_output, actual_output = writable[-1]
    basis = Basis.PARITY if _elements_overlap(expected_output) else recorder.basis
    with recorder.with_basis(basis):
        _compare_after_write(target, recorder, sample, host, copy, expected_output, actual_output)


def _compare_after_write(
    target: Target,
    recorder: Recorder,
    sample: Sample,
    host: Sample,
    copy: Sample,
    expected_output: torch.Tensor,
    actual_output: torch.Tensor,
) -> None:
    """Write to a view on the CPU and on the device, and compare the bases."""
    index = sample.index
    before = copy.input._version
    with torch.no_grad():
        if not attempt(lambda: expected_output.fill_(1)).ok:
            return  # elements of the view share memory, so the CPU cannot write it
        written = attempt(lambda: actual_output.fill_(1))
    if not written.ok:
        assert written.error is not None
        report_error(target, recorder, written.error, label="writing to a view", sample=index)
        return
    message = "writing to a view has not increased the version counter of its base."
    fact(recorder, copy.input._version > before, Kind.STATE, message, sample=index)
    compare_exact(
        recorder,
        copy.input,
        to_host_tensor(host.input),
        label="the base after writing to its view",
        sample=index,
    )
