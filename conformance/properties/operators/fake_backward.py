"""Fake tensors predict gradients."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import CallOutcome, attempt, attempt_on, one_line
from conformance.framework.compare import compare_metadata, fact, same_nesting
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _gradients
from conformance.properties.operators.fake import about_data
from conformance.properties.shared.dtypes import differentiable, pristine
from conformance.properties.shared.execution import copy_in
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 2


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return differentiable(target, subject, ("float32",))


@register(
    "fake_backward",
    subject_kind="operator",
    statement="Shape, dtype and layout of gradients are those that fake tensors predict.",
    documentation="user_guide/torch_compiler/torch.compiler_fake_tensor.html",
    level="full",
    applies=applies,
    capabilities=("autograd", "fake_tensors"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, copy in _gradients.cases(target, subject, recorder, LIMIT):
        real = attempt_on(target, functools.partial(_derive, subject.info, copy))
        if not real.ok:
            recorder.compared(1)  # the properties of gradients check whether it must work
            continue
        again = copy_in(target, recorder, sample)
        if again is None:
            continue
        trial = recorder.trial()
        _compare(trial, real.value, attempt(functools.partial(_predict, subject.info, again)), sample.index)
        if trial.failed and not _predicted_on_cpu(subject, sample):
            recorder.note(f"fake tensors do not predict sample {sample.index} on the CPU either")
            recorder.compared(1)
            continue
        recorder.absorb(trial)


def _compare(recorder: Recorder, real: list[list[Any]], fake: CallOutcome, index: int) -> None:
    """Compare what the device gave with what fake tensors predicted."""
    if fake.error is not None:
        refused = isinstance(fake.error, torch_testing_internals.dynamic_output_errors()) or about_data(
            fake.error
        )
        message = f"fake tensors raise {one_line(fake.error)}, but the device has gradients."
        fact(recorder, refused, Kind.EXCEPTION, message, sample=index)
        return
    for word, actual, promised in zip(("output", "gradient"), real, fake.value, strict=True):
        if not same_nesting(recorder, actual, promised, label=f"the {word}s", sample=index):
            continue
        for place, (got, want) in enumerate(zip(actual, promised, strict=True)):
            if got is None or want is None:
                recorder.compared(1)
                continue
            what = f"{word} {place}, compared with its fake,"
            compare_metadata(recorder, got, want, label=what, sample=index, device=want.device)


def _derive(info: Any, sample: Sample) -> list[list[Any]]:
    """Return differentiable outputs and gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        derivative = _gradients.differentiate(info, info.op, sample)
    return [list(derivative.outputs), list(derivative.gradients)]


def _predict(info: Any, sample: Sample) -> list[list[Any]]:
    mode = torch_testing_internals.fake_tensor_mode()

    def leaf(value: Any) -> Any:
        return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

    input, args, kwargs = trees.tree_map(leaf, sample.arguments)
    with mode:
        return _derive(info, sample.replace(input=input, args=args, kwargs=kwargs))


def _predicted_on_cpu(subject: Subject, sample: Sample) -> bool:
    """Return whether fake tensors predict what the CPU's own tensors give."""

    def forms() -> list[Any]:
        info = pristine(subject)
        real = _derive(info, to_host(sample))
        fake = _predict(info, to_host(sample))
        return [trees.tree_map(_form, found) for found in (real, fake)]

    outcome = attempt(forms)
    return outcome.ok and outcome.value[0] == outcome.value[1]


def _form(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return str((list(value.shape), value.dtype, value.layout))
