"""Tensors that ``out=`` must refuse. Each refusal is a result of its own: none may hide another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from conformance.framework.calls import CallOutcome, one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import out
from conformance.properties.shared.comparison import is_factory
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import cases
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Samples among which the first that has results of the right kind is taken.
LIMIT = 3
_NUMBERS = ("float32", "complex64", "bfloat16", "float16", "float64")
_ALL = (*_NUMBERS, "int64", "bool")

#: Operators for which the dtype of out= is a choice and not a conversion of the result.
_OUT_CHOOSES_DTYPE = frozenset({"cumsum", "cumprod", "bernoulli"})

#: What a sample and its results must be like, and the tensors to give as out= for these results.
Fits = Callable[[Target, Sample, list[torch.Tensor]], bool]
Make = Callable[[Target, torch.Tensor], torch.Tensor]


def _has_no_out(subject: Subject) -> bool:
    return not subject.info.supports_out or subject.name in out.OTHER_CONTRACT


def _numbers(parts: list[torch.Tensor]) -> bool:
    return all(part.is_floating_point() or part.is_complex() for part in parts)


def _refused(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    fits: Fits,
    make: Make,
    label: str,
    grad: bool = False,
) -> None:
    """Give the first sample that fits tensors for its results that must be refused."""
    for sample, want in cases(target, subject, recorder, LIMIT):
        parts = out.parts_of(recorder, sample, want)
        if not parts or not fits(target, sample, parts):
            continue
        given = [make(target, part) for part in parts]
        outcome = out.call(target, subject, recorder, sample, given, want.outputs, grad=grad)
        if outcome is not None:
            _judge(recorder, sample, outcome, label)
        return
    recorder.compared(1)
    recorder.note("no sample has a result for which such an out= could be wrong")


def _judge(recorder: Recorder, sample: Sample, outcome: CallOutcome, label: str) -> None:
    if outcome.error is None:
        recorder.compared(1)
        recorder.fail(Kind.ERROR_TYPE, f"{label} is accepted; RuntimeError is due.", sample=sample.index)
        return
    fact(
        recorder,
        isinstance(outcome.error, (RuntimeError, TypeError, ValueError)),
        Kind.ERROR_TYPE,
        f"{label} raises {type(outcome.error).__name__}; RuntimeError is due: {one_line(outcome.error)}",
        sample=sample.index,
    )


def _dtypes_of_numbers(target: Target, subject: Subject) -> Sequence[str]:
    if _has_no_out(subject) or subject.name in _OUT_CHOOSES_DTYPE:
        return []
    return first_dtypes(target, subject, _NUMBERS, 2)


@register(
    "out_dtype",
    subject_kind="operator",
    statement="An integer out= is refused for a result of real or complex numbers.",
    documentation="notes/out.html",
    level="core",
    applies=_dtypes_of_numbers,
    capabilities=("out_variants",),
    runs=False,
)
def check_dtype(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    _refused(
        target,
        subject,
        recorder,
        lambda target, sample, parts: _numbers(parts[:1]),
        lambda target, part: torch.empty(part.shape, dtype=torch.int64, device=target.torch_device),
        f"an out= of int64 for a result of {recorder.id.dtype} numbers",
    )


def _dtypes_of_operands(target: Target, subject: Subject) -> Sequence[str]:
    if _has_no_out(subject) or is_factory(subject):
        return []
    return first_dtypes(target, subject, _ALL, 2)


@register(
    "out_device",
    subject_kind="operator",
    statement="An out= on another device than the inputs is refused.",
    documentation="notes/out.html",
    level="core",
    applies=_dtypes_of_operands,
    capabilities=("out_variants",),
    runs=False,
)
def check_device(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    elsewhere = "meta" if target.is_cpu else "cpu"
    _refused(
        target,
        subject,
        recorder,
        lambda target, sample, parts: bool(sample.tensors()),
        lambda target, part: torch.empty(part.shape, dtype=part.dtype, device=elsewhere),
        f"an out= on device {elsewhere}",
    )


def _dtypes_of_gradients(target: Target, subject: Subject) -> Sequence[str]:
    if _has_no_out(subject) or not subject.info.supports_autograd:
        return []
    return first_dtypes(target, subject, _NUMBERS, 1)


@register(
    "out_grad",
    subject_kind="operator",
    statement="An out= that requires grad is refused.",
    documentation="notes/out.html",
    level="core",
    applies=_dtypes_of_gradients,
    capabilities=("out_variants", "autograd"),
    runs=False,
)
def check_grad(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    _refused(
        target,
        subject,
        recorder,
        lambda target, sample, parts: _numbers(parts),
        lambda target, part: torch.empty(
            part.shape, dtype=part.dtype, device=target.torch_device, requires_grad=True
        ),
        "an out= that requires grad",
        grad=True,
    )
