"""Property: invalid dimensions and sizes raise an error, in every form of an overload."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.oracle.reference import CallForm
from conformance.properties.overloads._call_forms import (
    call_forms_of,
    has_separate_autograd_kernel,
    with_out_arguments,
)
from conformance.properties.overloads._modified_calls import arguments_with_values, with_argument, with_tensor
from conformance.properties.overloads._references import (
    OverloadReference,
    call_without_warnings,
    declared_dtypes_with_calls,
    is_unchecked,
    references,
)
from conformance.properties.shared.basis import basis_of_error
from conformance.properties.shared.execution import copy_sample_to_device, run_operator
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.overloads import Overload
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 2
_TENSORS = 4
#: Exceptions that torch's operators raise for invalid arguments; NotImplementedError is a RuntimeError.
_ERRORS = (IndexError, ValueError, TypeError, RuntimeError)
#: Dtypes that cannot hold a result of a wider kind, such as a float32 result (torch.can_cast).
_NARROWER = (torch.int64, torch.bool)
#: Overloads that are not called with wrong sizes. Only the CPU's kernel validates their sizes; kernels of
#: other devices would write beyond the smaller tensor.
_UNCHECKED = frozenset({"rrelu_with_noise"})
#: A dimension that samples do not have.
_FAR = 70


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return a list with at most one dtype, because the errors do not depend on the dtype."""
    names = [] if is_unchecked(subject) else declared_dtypes_with_calls(target, subject)
    order = ("float32", "int64", "complex64", "bool")
    first = [name for name in order if name in names][:1] or list(names)[:1]
    return [name for name in first if name not in subject.info.idle.get("overload-errors", ())]


@register(
    "overload-errors",
    subject_kind="overload",
    statement=(
        "If one of the following raises an error on the CPU, it raises an error of the same class on the "
        "device: a dimension that an argument does not have, sizes that do not fit together, a result that "
        "the dtype of its memory cannot hold, and a singular matrix with check_errors. The tests of torch's "
        "database (ErrorInput.error_type) require this class on every device."
    ),
    documentation="torch.html",
    basis="parity",
    ground="No page says that a dim out of range or sizes that do not fit raise an error, or which type",
    level="core",
    applies=dtypes_to_check,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Make invalid calls in each form and compare the type of the error with the CPU's error."""
    for reference in references(target, subject, recorder, _LIMIT, include_random_calls=True):
        recorder.allow_nothing_compared(
            "the CPU accepts every call of the overload with another size or dimension"
        )
        # If the overload also has an autograd kernel, only inference mode is certain to reach the device's
        # other kernel. Check with and without inference mode.
        both_kernels = has_separate_autograd_kernel(target, reference)
        modes = (contextlib.nullcontext, torch.inference_mode) if both_kernels else (contextlib.nullcontext,)
        for form in call_forms_of(target, reference):
            for sample, out_dtype in _invalid_calls(reference, form):
                for mode in modes:
                    with mode():
                        check_raises_like_cpu(target, recorder, reference, form, sample, out_dtype)


def _invalid_calls(
    reference: OverloadReference, form: CallForm
) -> Iterator[tuple[Sample, torch.dtype | None]]:
    """Yield (call, dtype of out=) for calls that are invalid in a form.

    The dtype is None unless the call is invalid because of the dtype of its out=.
    """
    for sample in _calls_with_singular_matrix(reference):
        yield sample, None
    for sample in calls_with_far_dimensions(reference):
        yield sample, None
    if form == CallForm.OUT:  # an out= of another size is resized and therefore valid
        for dtype in _NARROWER:
            yield reference.sample, dtype
        return
    if base_name(reference.subject.name) not in _UNCHECKED:
        for sample in calls_with_other_sizes(reference):
            yield sample, None
    if form == CallForm.IN_PLACE and isinstance(reference.sample.input, torch.Tensor):
        for dtype in _NARROWER:
            yield reference.sample.replace(input=reference.sample.input.detach().to(dtype)), None


def _cpu_error(
    reference: OverloadReference, form: CallForm, sample: Sample, out_dtype: torch.dtype | None
) -> Exception | None:
    """Return the error that the CPU raises for a call; None if the CPU accepts the call or has no kernel."""
    error = attempt(
        lambda: call_without_warnings(
            *_callable_and_sample(reference, reference.overload, form, to_host(sample), "cpu", out_dtype)
        )
    ).error
    return None if isinstance(error, NotImplementedError) else error


def calls_with_far_dimensions(reference: OverloadReference) -> Iterator[Sample]:
    """Yield the call with dimensions that its tensors do not have."""
    for argument, value in arguments_with_values(reference):
        if argument.name in ("dim", "dim0", "dim1", "axis") and isinstance(value, int):
            yield with_argument(reference, argument.name, _FAR)
            yield with_argument(reference, argument.name, -_FAR)
        elif argument.name in ("dim", "dims") and isinstance(value, (list, tuple)) and value:
            yield with_argument(reference, argument.name, [_FAR])


def _calls_with_singular_matrix(reference: OverloadReference) -> Iterator[Sample]:
    """Yield the call with a matrix of zeros, if the overload has the option ``check_errors``."""
    first = reference.sample.input
    if isinstance(first, torch.Tensor) and any(
        argument.name == "check_errors" for argument, _ in arguments_with_values(reference)
    ):
        yield with_argument(reference, "check_errors", True).replace(input=torch.zeros_like(first))


def _has_unchanged_tensors(reference: OverloadReference, sample: Sample) -> bool:
    return all(
        tensor is original
        for tensor, original in zip(sample.tensors(), reference.sample.tensors(), strict=True)
    )


def calls_with_other_sizes(reference: OverloadReference) -> Iterator[Sample]:
    """Yield the call with one tensor at a time in another size."""
    for tensor_index, tensor in enumerate(reference.sample.tensors()[:_TENSORS]):
        if tensor.dim() and tensor.numel():
            repeats = [1] * (tensor.dim() - 1) + [3]
            yield with_tensor(
                reference.sample, tensor_index, tensor.detach().repeat(repeats)[..., :-1].contiguous()
            )


def check_raises_like_cpu(
    target: Target,
    recorder: Recorder,
    reference: OverloadReference,
    form: CallForm,
    sample: Sample,
    out_dtype: torch.dtype | None,
) -> None:
    """Check that the device raises an error of the CPU's class if the CPU raises an error.

    If ``out_dtype`` is not None, the out= arguments have this dtype.
    """
    cpu_error = _cpu_error(reference, form, sample, out_dtype)
    if cpu_error is None:
        return
    copy = copy_sample_to_device(target, recorder, sample)
    if copy is None:
        return
    outcome = run_operator(
        target, *_callable_and_sample(reference, reference.subject.info, form, copy, target.device, out_dtype)
    )
    kinds: tuple[type[Exception], ...] = (next((k for k in _ERRORS if isinstance(cpu_error, k)), Exception),)
    if out_dtype is None and _has_unchanged_tensors(reference, sample):  # a page may name IndexError
        kinds = (*kinds, IndexError)
    device_text = "is accepted" if outcome.error is None else f"raises {one_line(outcome.error)}"
    text = f"the {form} on ({sample.describe()}) {device_text}; on the CPU: {one_line(cpu_error)}"
    # A page may document that a call raises an error, but not the class of the error, which is compared with
    # the CPU (basis parity).
    basis = basis_of_error(str(cpu_error)) if outcome.error is None else Basis.PARITY
    is_expected = isinstance(outcome.error, kinds)
    fact(recorder, is_expected, Kind.ERROR_TYPE, text, sample=reference.sample.index, basis=basis)


def _callable_and_sample(
    reference: OverloadReference,
    overload: Overload,
    form: CallForm,
    sample: Sample,
    device: str,
    out_dtype: torch.dtype | None = None,
) -> tuple[Any, Sample]:
    """Return the callable of a form, and the arguments with which to call it."""
    if form == CallForm.IN_PLACE:
        return overload.in_place, sample
    if form == CallForm.OUT:
        parts = trees.tensors(reference.returned)
        outs = [
            torch.empty(part.shape, dtype=out_dtype or part.dtype, device=device).fill_(1) for part in parts
        ]
        return overload.out, with_out_arguments(
            reference.overload.out, sample, dict(zip(overload.outs, outs, strict=True))
        )
    return overload.op, sample
