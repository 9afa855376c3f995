"""Property: elementwise operators promote mixed dtypes as ``torch.result_type`` and the CPU do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import compare_metadata, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import ANY_DTYPE
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import declared_dtypes, unmodified_info
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    target_declares_call,
)
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int64,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
)
_NUMBERS = (True, 2, 1.5, 1 + 1j)


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtype word ``any`` for elementwise operators, because each call mixes several dtypes."""
    info = subject.info
    elementwise = torch_testing_internals.is_elementwise_unary(
        info
    ) or torch_testing_internals.is_elementwise_binary(info)
    return [ANY_DTYPE] if elementwise and declared_dtypes(target, subject) else []


@register(
    "promotion",
    subject_kind="operator",
    statement=(
        "For mixed dtypes, tensors without dimensions and Python numbers, the result has the dtype of "
        "torch.result_type and of the CPU, or an error is raised as on the CPU."
    ),
    documentation="tensor_attributes.html",
    level="core",
    applies=dtypes_to_check,
    runs=False,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare result metadata with the CPU for mixed dtypes, 0-dim tensors and Python numbers."""
    cpu_info = unmodified_info(subject)
    for sample in _mixed_dtype_samples(subject.info):
        if not target_declares_call(target, recorder, sample):
            continue
        recorder.samples(1, 1)

        def call(sample: Sample = sample) -> Any:
            with torch_testing_internals.silence_warnings(), torch.no_grad():
                return to_host(sample).call(cpu_info.op)

        expected = attempt(call)
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        outcome = run_operator(target, subject.info.op, copy)
        if expected.ok and outcome.ok:
            label = f"the result of ({sample.describe()})"
            compare_metadata(recorder, outcome.value, expected.value, label=label, sample=sample.index)
            _check_declared_dtype(recorder, subject, sample, outcome.value)
        elif expected.ok:
            report_failed_call(target, recorder, sample, outcome)
        else:
            recorder.compared(1)
            if outcome.ok:
                recorder.note(f"({sample.describe()}) works, but the CPU raises {one_line(expected.error)}")  # type: ignore[arg-type]


def _check_declared_dtype(recorder: Recorder, subject: Subject, sample: Sample, result: Any) -> None:
    """Compare the result's dtype with the dtype that torch's database declares, not with the CPU's result."""
    info = subject.info
    if not isinstance(result, torch.Tensor):
        return
    expected: torch.dtype | None = None
    tensors = sample.tensors()
    if getattr(info, "always_returns_bool", False):
        expected = torch.bool
    elif (
        info.promotes_int_to_float
        and info.name != "float_power"
        and all(not (t.is_floating_point() or t.is_complex()) for t in tensors)
    ) and not any(isinstance(arg, (float, complex)) for arg in sample.args):
        expected = torch.get_default_dtype()
    if expected is not None:
        message = f"({sample.describe()}) gives {result.dtype}, but {expected} is declared."
        fact(recorder, result.dtype == expected, Kind.DTYPE, message, sample=sample.index)


def _ones(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


def _mixed_dtype_samples(info: Any) -> Iterator[Sample]:
    index = 0
    if torch_testing_internals.is_elementwise_unary(info):
        supported = torch_testing_internals.forward_dtypes(info)
        for dtype in _DTYPES:
            if dtype in supported:
                for shape in ((3,), ()):
                    yield Sample(index, _ones(dtype, shape))
                    index += 1
        return
    for left_dtype in _DTYPES:
        for right_dtype in _DTYPES:
            for left_shape, right_shape in (((3,), (3,)), ((3,), ()), ((), (3,))):
                yield Sample(index, _ones(left_dtype, left_shape), (_ones(right_dtype, right_shape),))
                index += 1
        if info.supports_rhs_python_scalar:
            for number in _NUMBERS:
                yield Sample(index, _ones(left_dtype, (3,)), (number,))
                index += 1
