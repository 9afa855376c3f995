"""``out=``: the tensors to which results are written, and those that are refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import CallOutcome
from conformance.framework.compare import compare_exact, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.reference import Reference
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import cases, copy_in, report_failed_call, run
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 6
_DTYPES = ("float32", "int64", "complex64", "bool", "bfloat16")

#: Operators whose entry declares out=, but not as one tensor per result.
OTHER_CONTRACT = frozenset({"equal", "_batch_norm_with_update", "histogramdd", "sparse.sampled_addmm"})


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not has_out(subject):
        return []
    return first_dtypes(target, subject, _DTYPES, 3)


def has_out(subject: Subject) -> bool:
    """Return whether an operator takes one tensor of out= for each result."""
    return subject.info.supports_out and subject.name not in OTHER_CONTRACT


@register(
    "out",
    subject_kind="operator",
    statement=(
        "out= is returned itself, resized from zero elements, written in place with its strides kept "
        "otherwise."
    ),
    documentation="notes/out.html",
    level="core",
    applies=applies,
    capabilities=("out_variants",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in cases(target, subject, recorder, LIMIT):
        parts = parts_of(recorder, sample, want)
        if not parts:
            continue
        _resized(target, subject, recorder, sample, want, parts)
        _reused(target, subject, recorder, sample, want, parts)
        _strided(target, subject, recorder, sample, want, parts)


def parts_of(recorder: Recorder, sample: Sample, want: Reference) -> list[torch.Tensor]:
    """Return the results of a sample, one for each tensor of out=; none if it has no out= of this form."""
    if sample.kwargs.get("as_tuple"):
        return []
    parts = list(trees.leaves(want.outputs))
    if parts and all(isinstance(p, torch.Tensor) and p.layout is torch.strided for p in parts):
        return parts
    recorder.note(f"sample {sample.index} returns something other than strided tensors")
    return []


def call(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    out: list[torch.Tensor],
    want: Any,
    *,
    grad: bool = False,
    written: Collection[int] = (),
) -> CallOutcome | None:
    """Return the outcome of the operator with tensors for its results ``want``; None if no copy arrived."""
    copy = copy_in(target, recorder, sample)
    if copy is None:
        return None
    wrapped = out[0] if isinstance(want, torch.Tensor) else tuple(out)
    given = copy.replace(kwargs={**copy.kwargs, "out": wrapped})
    outcome = run(target, subject.info.op, given, grad=grad)
    if outcome.ok:
        check_unwritten_arguments(recorder, sample, copy, written, label="the operator with out=")
    return outcome


def _write(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    want: Reference,
    out: list[torch.Tensor],
    label: str,
) -> bool:
    outcome = call(target, subject, recorder, sample, out, want.outputs, written=want.written)
    if outcome is None:
        return False
    if not outcome.ok:
        report_failed_call(target, recorder, sample, outcome, f"the operator with {label}")
        return False
    returned = list(trees.leaves(outcome.value))
    if outcome.value is None:  # declared without a result
        returned = out
    same = len(returned) == len(out) and all(a is b for a, b in zip(returned, out, strict=False))
    fact(
        recorder,
        same,
        Kind.ALIASING,
        f"with {label} the operator returns another tensor.",
        sample=sample.index,
    )
    value = out[0] if isinstance(want.outputs, torch.Tensor) else tuple(out)
    return compare_outputs(target, recorder, subject, sample, value, want, label=label)


def _place(out: list[torch.Tensor]) -> list[tuple[int, tuple[int, ...]]]:
    return [(p.data_ptr(), p.stride()) for p in out if p.numel()]


def _resized(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    want: Reference,
    parts: list[torch.Tensor],
) -> None:
    out = [torch.empty(0, dtype=p.dtype, device=target.torch_device) for p in parts]
    _write(target, subject, recorder, sample, want, out, "an out= of zero elements")


def _reused(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    want: Reference,
    parts: list[torch.Tensor],
) -> None:
    out = [torch.empty(p.shape, dtype=p.dtype, device=target.torch_device).fill_(1) for p in parts]
    before = _place(out)
    if _write(target, subject, recorder, sample, want, out, "an out= of the right shape"):
        after = _place(out)
        message = "the memory or strides of an out= of the right shape have changed."
        fact(recorder, before == after, Kind.ALIASING, message, sample=sample.index)


def _strided(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    want: Reference,
    parts: list[torch.Tensor],
) -> None:
    if not target.capable("non_contiguous") or not any(p.dim() and p.numel() for p in parts):
        return
    bases, out = [], []
    for part in parts:
        base = torch.empty((*part.shape, 2), dtype=part.dtype, device=target.torch_device).fill_(1)
        bases.append(base)
        out.append(base[..., 0])
    before = _place(out)
    if not _write(target, subject, recorder, sample, want, out, "an out= with gaps between its elements"):
        return
    after = _place(out)
    message = "the memory or strides of an out= with gaps between its elements have changed."
    fact(recorder, before == after, Kind.ALIASING, message, sample=sample.index)
    for base in bases:
        untouched = torch.ones(base.shape[:-1], dtype=base.dtype)
        compare_exact(
            recorder, base[..., 1], untouched, label="the memory in the gaps of out=", sample=sample.index
        )
