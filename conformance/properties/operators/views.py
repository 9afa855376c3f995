"""Views share memory, geometry and version counter with their base; copies share nothing."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt
from conformance.framework.compare import compare_exact, compare_metadata, fact, on_host
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.shared.dtypes import first_dtypes, pristine
from conformance.properties.shared.execution import cases, copy_in, report_failed_call, run
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 6


@functools.cache
def may_alias(name: str) -> bool:
    """Return whether the aten operator of that name, by a schema, may alias an input that it does not write.

    True also for the copying twin of such an operator.
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


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not may_alias(subject.info.name):
        return []
    return first_dtypes(target, subject, ("float32", "complex64", "int64"), 2)


@register(
    "views",
    subject_kind="operator",
    statement=(
        "A result that aliases its input on the CPU does so on the device, with the same geometry; others do "
        "not."
    ),
    documentation="tensor_view.html",
    level="core",
    applies=applies,
    capabilities=("views",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    reference = pristine(subject)
    for sample, _ in cases(target, subject, recorder, LIMIT):
        if not isinstance(sample.input, torch.Tensor) or sample.input.layout is not torch.strided:
            recorder.compared(1)
            continue
        host = to_host(sample)
        with torch_testing_internals.quiet(), torch.no_grad():
            reference_call = attempt(functools.partial(host.call, reference.op))
        copy = copy_in(target, recorder, sample)
        if copy is None or not reference_call.ok:
            continue
        outcome = run(target, subject.info.op, copy)
        if not outcome.ok:
            report_failed_call(target, recorder, sample, outcome)
            continue
        _compare(recorder, sample, host, copy, reference_call.value, outcome.value)


def aliases(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two strided tensors have the same storage."""
    return bool(left.untyped_storage()._cdata == right.untyped_storage()._cdata)


def _compare(
    recorder: Recorder, sample: Sample, host: Sample, copy: Sample, expected: Any, actual: Any
) -> None:
    index = sample.index
    for place, (want, got) in enumerate(zip(trees.tensors(expected), trees.tensors(actual), strict=False)):
        if want.layout is not torch.strided or got.layout is not torch.strided:
            continue
        what = f"output {place}"
        shared, is_shared = aliases(want, host.input), aliases(got, copy.input)
        word = "shares no memory" if shared else "shares memory"
        message = f"{what} {word} with the input, unlike on the CPU."
        if not fact(recorder, shared == is_shared, Kind.ALIASING, message, sample=index) or not shared:
            continue
        compare_metadata(recorder, got, want, label=what, sample=index, stride=True)
        message = f"{what} is at offset {got.storage_offset()}, expected {want.storage_offset()}."
        same = got.storage_offset() == want.storage_offset() or not got.numel()
        fact(recorder, same, Kind.METADATA, message, sample=index)
    writable = [
        (want, got)
        for want, got in zip(trees.tensors(expected), trees.tensors(actual), strict=False)
        if want.layout is torch.strided
        and aliases(want, host.input)
        and aliases(got, copy.input)
        and want.numel()
    ]
    if not writable:
        return
    want, got = writable[-1]
    before = copy.input._version
    with torch.no_grad():
        if not attempt(lambda: want.fill_(1)).ok:
            return  # overlapping memory
        written = attempt(lambda: got.fill_(1))
    message = "writing to a view raised an error on the device only."
    if not fact(recorder, written.ok, Kind.EXCEPTION, message, sample=index):
        return
    message = "writing to a view has not raised the version counter of its base."
    fact(recorder, copy.input._version > before, Kind.STATE, message, sample=index)
    compare_exact(
        recorder, copy.input, on_host(host.input), label="the base after writing to its view", sample=index
    )
