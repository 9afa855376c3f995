"""Fake tensors predict what the device returns."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import compare_metadata, fact, same_nesting
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import cases, copy_in, report_failed_call, run
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool", "float64"), 2)


@register(
    "fake",
    subject_kind="operator",
    statement=(
        "Shape, dtype, layout, strides and aliasing predicted by fake tensors are those of the real result."
    ),
    documentation="user_guide/torch_compiler/torch.compiler_fake_tensor.html",
    level="core",
    applies=applies,
    capabilities=("fake_tensors",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    unpredictable = torch_testing_internals.dynamic_output_errors()
    for sample, _ in cases(target, subject, recorder, LIMIT):
        copy = copy_in(target, recorder, sample)
        if copy is None:
            continue
        outcome = run(target, subject.info.op, copy)
        if not outcome.ok:
            report_failed_call(target, recorder, sample, outcome)
            continue
        again = copy_in(target, recorder, sample)
        if again is None:
            continue
        predicted = attempt(functools.partial(predict, subject.info.op, again))
        if not predicted.ok:
            assert predicted.error is not None
            refused = isinstance(predicted.error, unpredictable) or about_data(predicted.error)
            message = f"fake tensors raise {one_line(predicted.error)}, but the device has a result."
            fact(recorder, refused, Kind.EXCEPTION, message, sample=sample.index)
            continue
        given, promised = predicted.value
        _compare(recorder, sample, copy, outcome.value, given, promised)


def about_data(error: Exception) -> bool:
    """Return whether the prediction was refused because it would depend on values."""
    text = str(error)
    return "data-dependent" in text or "data dependent" in text or "DataDependent" in type(error).__name__


def predict(op: Callable[..., Any], sample: Sample) -> tuple[Sample, Any]:
    """Return a sample of fake tensors, and the result of the operator for it."""
    mode = torch_testing_internals.fake_tensor_mode()

    def leaf(value: Any) -> Any:
        return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

    input, args, kwargs = trees.tree_map(leaf, sample.arguments)
    given = sample.replace(input=input, args=args, kwargs=kwargs)
    with mode, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return given, given.call(op)


def _compare(
    recorder: Recorder, sample: Sample, real: Sample, actual: Any, fake: Sample, promised: Any
) -> None:
    index = sample.index
    if not same_nesting(recorder, actual, promised, label="the result", sample=index):
        return
    for place, (got, want) in enumerate(zip(trees.leaves(actual), trees.leaves(promised), strict=False)):
        what = f"output {place}, compared with its fake,"
        if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor):
            recorder.compared(1)
            continue
        if not compare_metadata(
            recorder, got, want, label=what, sample=index, stride=True, device=want.device
        ):
            continue
        if want.layout is torch.strided:
            message = (
                f"{what} aliases inputs {_aliased(real, got)}, but the fake aliases {_aliased(fake, want)}."
            )
            same = _aliased(real, got) == _aliased(fake, want)
            fact(recorder, same, Kind.ALIASING, message, sample=index)


def _aliased(sample: Sample, tensor: torch.Tensor) -> list[int]:
    """Return the positions of the arguments with which a tensor shares memory."""
    storage = tensor.untyped_storage()._cdata
    return [
        place
        for place, argument in enumerate(sample.tensors())
        if argument.layout is torch.strided and argument.untyped_storage()._cdata == storage
    ]
