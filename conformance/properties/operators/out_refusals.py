"""Properties: ``out=`` rejects tensors of the wrong dtype, of another device, or that require grad.

Each rejection is a property of its own, so that one failure does not hide another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from conformance.framework.calls import CallOutcome, one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.properties.operators import out
from conformance.properties.shared.comparison import is_factory
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import samples_with_references
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The maximum number of samples among which a sample with suitable results is searched.
LIMIT = 3
_NUMBERS = ("float32", "complex64", "bfloat16", "float16", "float64")
_ALL = (*_NUMBERS, "int64", "bool")

#: Operators for which the dtype of out= selects the dtype of the computation and does not convert the result.
_OUT_CHOOSES_DTYPE = frozenset({"cumsum", "cumprod", "bernoulli"})

#: Returns whether a sample and its results are suitable.
Fits = Callable[[Target, Sample, list[torch.Tensor]], bool]
#: Returns the out= tensor to pass for a result.
Make = Callable[[Target, torch.Tensor], torch.Tensor]


def _has_no_out(subject: Subject) -> bool:
    return not subject.info.supports_out or subject.name in out.OTHER_CONTRACT


def _are_floating_or_complex(parts: list[torch.Tensor]) -> bool:
    return all(part.is_floating_point() or part.is_complex() for part in parts)


def _check_out_is_rejected(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    fits: Fits,
    make: Make,
    label: str,
    grad: bool = False,
) -> None:
    """Call the operator on the first suitable sample with an out= that it must reject."""
    for sample, reference in samples_with_references(target, subject, recorder, LIMIT):
        parts = out.results_matching_out(recorder, sample, reference)
        if not parts or not fits(target, sample, parts):
            continue
        out_tensors = [make(target, part) for part in parts]
        outcome = out.call_with_out(
            target, subject, recorder, sample, out_tensors, reference.outputs, grad=grad
        )
        if outcome is not None:
            _check_rejection_error(target, subject, recorder, sample, outcome, label)
        return
    recorder.compared(1)
    recorder.note("no sample has a result for which the out= would be invalid")


def _check_rejection_error(
    target: Target, subject: Subject, recorder: Recorder, sample: Sample, outcome: CallOutcome, label: str
) -> None:
    if outcome.error is None:
        recorder.compared(1)
        recorder.fail(Kind.ERROR_TYPE, f"{label} is accepted; expected RuntimeError.", sample=sample.index)
        return
    fact(
        recorder,
        isinstance(outcome.error, (RuntimeError, TypeError, ValueError)),
        Kind.ERROR_TYPE,
        f"{label} raises {one_line(outcome.error)}, expected RuntimeError.",
        sample=sample.index,
        basis=Basis.PARITY,
    )


def _dtypes_for_wrong_dtype(target: Target, subject: Subject) -> Sequence[str]:
    if _has_no_out(subject) or subject.name in _OUT_CHOOSES_DTYPE:
        return []
    return first_dtypes(target, subject, _NUMBERS, 2)


@register(
    "out_dtype",
    subject_kind="operator",
    statement="An integer out= for a result of real or complex numbers raises an error.",
    documentation="tensor_attributes.html",
    level="core",
    applies=_dtypes_for_wrong_dtype,
    capabilities=("out_variants",),
    runs=False,
)
@controlled_by_cpu
def check_wrong_dtype(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Pass an integer out= for real or complex results and require an error."""
    _check_out_is_rejected(
        target,
        subject,
        recorder,
        lambda target, sample, parts: _are_floating_or_complex(parts[:1]),
        lambda target, part: torch.empty(part.shape, dtype=torch.int64, device=target.torch_device),
        f"an out= of int64 for a result of {recorder.id.dtype} numbers",
    )


def _dtypes_for_wrong_device(target: Target, subject: Subject) -> Sequence[str]:
    if _has_no_out(subject) or is_factory(subject):
        return []
    return first_dtypes(target, subject, _ALL, 2)


@register(
    "out_device",
    subject_kind="operator",
    statement="An out= on another device than the inputs raises an error.",
    documentation="notes/out.html",
    level="core",
    applies=_dtypes_for_wrong_device,
    capabilities=("out_variants",),
    runs=False,
)
@controlled_by_cpu
def check_wrong_device(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Pass an out= on another device and require an error."""
    elsewhere = "meta" if target.is_cpu else "cpu"
    _check_out_is_rejected(
        target,
        subject,
        recorder,
        lambda target, sample, parts: bool(sample.tensors()),
        lambda target, part: torch.empty(part.shape, dtype=part.dtype, device=elsewhere),
        "an out= on another device",
    )


def _dtypes_for_requires_grad(target: Target, subject: Subject) -> Sequence[str]:
    if _has_no_out(subject) or not subject.info.supports_autograd:
        return []
    return first_dtypes(target, subject, _NUMBERS, 1)


@register(
    "out_grad",
    subject_kind="operator",
    statement="An out= that requires grad raises an error.",
    documentation="notes/out.html",
    level="core",
    applies=_dtypes_for_requires_grad,
    capabilities=("out_variants", "autograd"),
    runs=False,
)
@controlled_by_cpu
def check_requires_grad(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Pass an out= that requires grad and require an error."""
    _check_out_is_rejected(
        target,
        subject,
        recorder,
        lambda target, sample, parts: _are_floating_or_complex(parts),
        lambda target, part: torch.empty(
            part.shape, dtype=part.dtype, device=target.torch_device, requires_grad=True
        ),
        "an out= that requires grad",
        grad=True,
    )
