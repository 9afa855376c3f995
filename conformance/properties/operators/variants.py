"""Property: all forms of an operator agree: function, method, operator, aliases and in-place forms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import CallOutcome, attempt, attempt_on
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.storages import address_of
from conformance.model.verdicts import Kind
from conformance.oracle import relations
from conformance.oracle.reference import Reference
from conformance.properties.operators import _gradients
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import (
    derivatives_crash,
    differentiable_dtypes,
    first_dtypes,
    unmodified_info,
)
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

LIMIT = 4
_DTYPES = ("float32", "complex64", "int64", "bool", "bfloat16", "float64")


def call_forms_of_operator(info: Any, *, inplace: bool) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield (name, callable) of the forms that an OpInfo lists: method, operator and aliases.

    With ``inplace``, yield the in-place forms instead.
    """
    if inplace:
        named = [
            ("in-place method", info.inplace_variant),
            ("in-place operator", info.inplace_operator_variant),
        ]
        named += [(f"in-place alias {alias.name}_", alias.inplace_variant) for alias in info.aliases]
    else:
        named = [("method", info.method_variant), ("operator", info.operator_variant)]
        for alias in info.aliases:
            named += [(f"alias {alias.name}", alias.op), (f"method alias {alias.name}", alias.method_variant)]
    for name, form in named:
        if callable(form):
            yield name, form


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    info = subject.info
    if not any(True for _ in call_forms_of_operator(info, inplace=False)) and not any(
        True for _ in call_forms_of_operator(info, inplace=True)
    ):
        return []
    return first_dtypes(target, subject, _DTYPES, 3)


@register(
    "variants",
    subject_kind="operator",
    statement=(
        "Function, method, operator and aliases agree in value and gradient. In-place forms return their "
        "input in the same memory, with the values of the function."
    ),
    documentation="tensors.html",
    level="core",
    applies=dtypes_to_check,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call each form on each sample and compare values, gradients and aliasing with the reference."""
    info = subject.info
    for sample, reference in samples_with_references(target, subject, recorder, LIMIT):
        for name, form in call_forms_of_operator(info, inplace=False):
            copy = copy_sample_to_device(target, recorder, sample)
            if copy is None:
                continue
            outcome = run_operator(target, form, copy)
            if outcome.ok:
                compare_outputs(target, recorder, reference, outcome.value, label=f"the {name}'s result")
                check_unwritten_arguments(recorder, sample, copy, reference.written, label=f"the {name}")
            elif _outcome_on_cpu(subject, name, sample, inplace=False).ok:
                report_failed_call(target, recorder, sample, outcome, f"the {name}")
            else:
                recorder.compared(1)  # the CPU rejects this form of the call too
        if target.capable("inplace"):
            for name, form in call_forms_of_operator(info, inplace=True):
                _check_in_place(target, subject, recorder, sample, reference, name, form)
    if derivatives_crash(target, recorder.id.dtype):
        recorder.note("gradients were not compared: the target file declares that conj_neg_views crashes")
    elif recorder.id.dtype in differentiable_dtypes(target, subject, ("float32", "complex64")):
        _check_gradients_of_forms(target, subject, recorder)


def _outcome_on_cpu(subject: Subject, name: str, sample: Sample, *, inplace: bool) -> CallOutcome:
    """Return the outcome of the named form on the CPU."""
    form = dict(call_forms_of_operator(unmodified_info(subject), inplace=inplace))[name]

    def call_form() -> Any:
        with (
            torch_testing_internals.torch_seeded(0),
            torch_testing_internals.silence_warnings(),
            torch.no_grad(),
        ):
            return to_host(sample).call(form)

    return attempt(call_form)


def _check_in_place(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    reference: Reference,
    name: str,
    form: Callable[..., Any],
) -> None:
    if not isinstance(sample.input, torch.Tensor):
        return
    expected = reference.outputs
    fits = (
        isinstance(expected, torch.Tensor)
        and expected.dtype == sample.input.dtype
        and expected.shape == sample.input.shape
    )
    if not fits and not _outcome_on_cpu(subject, name, sample, inplace=True).ok:
        recorder.compared(1)  # the result does not fit into the input, and the CPU rejects the call too
        return
    copy = copy_sample_to_device(target, recorder, sample)
    if copy is None:
        return
    input_on_device = copy.input
    before = (address_of(input_on_device), input_on_device._version)
    outcome = run_operator(target, form, copy)
    index = sample.index
    if not outcome.ok:
        if _outcome_on_cpu(subject, name, sample, inplace=True).ok:
            report_failed_call(target, recorder, sample, outcome, f"the {name}")
        else:
            recorder.compared(1)
        return
    fact(
        recorder,
        outcome.value is input_on_device,
        Kind.ALIASING,
        f"the {name} does not return its input.",
        sample=index,
    )
    if fits:
        message = f"the {name} has moved its input to other memory."
        fact(recorder, address_of(input_on_device) == before[0], Kind.ALIASING, message, sample=index)
        message = f"the {name} has not increased the version counter of its input."
        written = (
            input_on_device._version > before[1]
            or not input_on_device.numel()
            or _may_write_nothing(subject.name)
        )
        fact(recorder, written, Kind.STATE, message, sample=index)
        compare_outputs(target, recorder, reference, input_on_device, label=f"the input after the {name}")
    check_unwritten_arguments(
        recorder,
        sample,
        copy,
        {_index_of_tensor(copy, input_on_device), *reference.written},
        label=f"the {name}",
    )


def _index_of_tensor(sample: Sample, tensor: torch.Tensor) -> int:
    return next(index for index, candidate in enumerate(sample.tensors()) if candidate is tensor)


def _may_write_nothing(operator: str) -> bool:
    """Return whether the in-place form of an operator may leave its input unwritten.

    Some operators return the unchanged input for some arguments, so no write is required.
    """
    return operator in ("resize_", "resize_as_", "squeeze", "conj_physical") or "dropout" in operator


def _check_gradients_of_forms(target: Target, subject: Subject, recorder: Recorder) -> None:
    info = subject.info
    for sample, _ in _gradients.differentiable_samples(target, subject, recorder, 1):
        reference = _gradients.first_derivatives_on_cpu(subject, recorder, sample)
        if not reference.ok:
            continue
        for name, form in [*call_forms_of_operator(info, inplace=False), *_in_place_forms_on_clone(info)]:
            if not _is_differentiable_on_cpu(subject, name, sample):
                continue
            copy = copy_sample_to_device(target, recorder, sample)
            if copy is None:
                continue

            def backward(form: Callable[..., Any] = form, copy: Sample = copy) -> Any:
                return _gradients.differentiate(info, form, copy)

            outcome = attempt_on(target, backward)
            if not outcome.ok:
                report_failed_call(target, recorder, sample, outcome, f"the backward of the {name}")
                continue
            _gradients.compare_gradients(
                target,
                recorder,
                subject,
                sample,
                outcome.value.gradients,
                reference.value.gradients,
                label=f"the {name}'s gradient",
                size=_gradients.expected_gradient_size(reference.value),
            )


def _in_place_forms_on_clone(info: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the name of each differentiable in-place form, and a function that applies the form to a clone of
    its input.
    """
    if not info.supports_inplace_autograd:
        return
    for name, form in call_forms_of_operator(info, inplace=True):
        yield name, _gradients.called_on_clone(form)


def _is_differentiable_on_cpu(subject: Subject, name: str, sample: Sample) -> bool:
    """Return whether the named form has a differentiable result for this sample on the CPU."""
    info = unmodified_info(subject)
    if relations.is_only_metadata_specified(subject.name, sample):
        return False
    form = dict([*call_forms_of_operator(info, inplace=False), *_in_place_forms_on_clone(info)]).get(name)
    if form is None:
        return True
    with torch_testing_internals.torch_seeded(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = attempt(lambda: _gradients.differentiate(info, form, to_host(sample)))
    return outcome.ok and bool(trees.tensors(outcome.value.outputs))
