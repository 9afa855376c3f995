"""Property: results are written to the tensors of ``out=``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import CallOutcome
from conformance.framework.compare import compare_exact, fact, significant_strides
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.storages import address_of
from conformance.model.verdicts import Basis, Kind
from conformance.oracle.reference import Reference
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    samples_with_references,
)
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 6
_DTYPES = ("float32", "int64", "complex64", "bool", "bfloat16")

#: Operators that torch's database lists with out=, but whose out= is not one tensor per result.
OTHER_CONTRACT = frozenset({"equal", "_batch_norm_with_update", "histogramdd", "sparse.sampled_addmm"})


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not has_out(subject):
        return []
    return first_dtypes(target, subject, _DTYPES, 3)


def has_out(subject: Subject) -> bool:
    """Return whether an operator accepts one tensor of out= for each result."""
    return subject.info.supports_out and subject.name not in OTHER_CONTRACT


@register(
    "out",
    subject_kind="operator",
    statement=(
        "The operator returns the out= tensor itself. An out= of zero elements is resized; any other "
        "out= is written in place and keeps its strides."
    ),
    documentation="notes/out.html",
    level="core",
    applies=dtypes_to_check,
    capabilities=("out_variants",),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator with empty, matching and strided out= and compare with the reference."""
    for sample, reference in samples_with_references(target, subject, recorder, LIMIT):
        parts = results_matching_out(recorder, sample, reference)
        if not parts:
            continue
        _check_empty_out_is_resized(target, subject, recorder, sample, reference, parts)
        _check_out_is_written_in_place(target, subject, recorder, sample, reference, parts)
        _check_strided_out(target, subject, recorder, sample, reference, parts)


def results_matching_out(recorder: Recorder, sample: Sample, reference: Reference) -> list[torch.Tensor]:
    """Return the reference's results for a sample, one for each tensor of out=.

    The list is empty if the results are not strided tensors, or if the sample sets ``as_tuple``.
    """
    if sample.kwargs.get("as_tuple"):
        return []
    parts = list(trees.leaves(reference.outputs))
    if parts and all(isinstance(p, torch.Tensor) and p.layout is torch.strided for p in parts):
        return parts
    recorder.note(f"sample {sample.index} is omitted: its results are not all strided tensors")
    return []


def call_with_out(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    out: list[torch.Tensor],
    outputs: Any,
    *,
    grad: bool = False,
    written: Collection[int] = (),
) -> CallOutcome | None:
    """Call the operator with the tensors ``out`` as out=, and return the outcome.

    ``outputs`` are the results of the reference. They determine whether out= is one tensor or a tuple. Return
    None if the arguments cannot be copied to the device.
    """
    copy = copy_sample_to_device(target, recorder, sample)
    if copy is None:
        return None
    wrapped = out[0] if isinstance(outputs, torch.Tensor) else tuple(out)
    sample_with_out = copy.replace(kwargs={**copy.kwargs, "out": wrapped})
    outcome = run_operator(target, subject.info.op, sample_with_out, grad=grad)
    if outcome.ok:
        check_unwritten_arguments(recorder, sample, copy, written, label="the operator with out=")
    return outcome


def _check_out_is_written(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    reference: Reference,
    out: list[torch.Tensor],
    label: str,
) -> bool:
    outcome = call_with_out(
        target, subject, recorder, sample, out, reference.outputs, written=reference.written
    )
    if outcome is None:
        return False
    if not outcome.ok:
        report_failed_call(target, recorder, sample, outcome, f"the operator with {label}")
        return False
    returned = list(trees.leaves(outcome.value))
    if outcome.value is None:  # an overload without a declared result returns None
        returned = out
    same = len(returned) == len(out) and all(a is b for a, b in zip(returned, out, strict=False))
    fact(
        recorder,
        same,
        Kind.ALIASING,
        f"with {label} the operator does not return it.",
        sample=sample.index,
        basis=Basis.CONSISTENCY,  # the schema says that the result is out=
    )
    value = out[0] if isinstance(reference.outputs, torch.Tensor) else tuple(out)
    return compare_outputs(target, recorder, reference, value, label=label)


def _addresses_and_strides(out: list[torch.Tensor]) -> list[tuple[int | None, list[int]]]:
    return [(address_of(p), significant_strides(p)) for p in out if p.numel()]


def _check_empty_out_is_resized(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    reference: Reference,
    parts: list[torch.Tensor],
) -> None:
    out = [torch.empty(0, dtype=p.dtype, device=target.torch_device) for p in parts]
    _check_out_is_written(target, subject, recorder, sample, reference, out, "an out= of zero elements")


def _check_out_is_written_in_place(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    reference: Reference,
    parts: list[torch.Tensor],
) -> None:
    out = [torch.empty(p.shape, dtype=p.dtype, device=target.torch_device).fill_(1) for p in parts]
    before = _addresses_and_strides(out)
    if _check_out_is_written(target, subject, recorder, sample, reference, out, "an out= of the right shape"):
        after = _addresses_and_strides(out)
        message = "the memory or strides of an out= of the right shape have changed."
        fact(recorder, before == after, Kind.ALIASING, message, sample=sample.index)


def _check_strided_out(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    reference: Reference,
    parts: list[torch.Tensor],
) -> None:
    if not target.has_arbitrary_strides or not any(p.dim() and p.numel() for p in parts):
        return
    bases, out = [], []
    for part in parts:
        base = torch.empty((*part.shape, 2), dtype=part.dtype, device=target.torch_device).fill_(1)
        bases.append(base)
        out.append(base[..., 0])
    before = _addresses_and_strides(out)
    if not _check_out_is_written(
        target, subject, recorder, sample, reference, out, "an out= with gaps between its elements"
    ):
        return
    after = _addresses_and_strides(out)
    message = "the memory or strides of an out= with gaps between its elements have changed."
    fact(recorder, before == after, Kind.ALIASING, message, sample=sample.index)
    for base in bases:
        untouched = torch.ones(base.shape[:-1], dtype=base.dtype)
        compare_exact(
            recorder, base[..., 1], untouched, label="the memory in the gaps of out=", sample=sample.index
        )
