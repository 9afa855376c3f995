"""Property: reductions are correct over any dimensions, for scalars, empty tensors and extremal values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework.calls import one_line
from conformance.framework.compare import compare_values, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.oracle.reference import Call, reference_for
from conformance.properties.shared.basis import basis_of_values
from conformance.properties.shared.comparison import SAME_BITS_AGREE, compare_outputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.properties.shared.execution import copy_sample_to_device, report_failed_call, run_operator
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_SHAPE = (3, 4, 5)


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not torch_testing_internals.is_reduction(subject.info):
        return []
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool", "bfloat16"), 4)


@register(
    "reduction",
    subject_kind="operator",
    statement=(
        "Each choice of dimensions and keepdim gives the reference shape and values, also for equal and "
        "extremal values. The reduction of zero elements gives the identity."
    ),
    documentation="torch.html",
    level="core",
    applies=dtypes_to_check,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the reduction for each choice of dimensions and keepdim and compare with the reference."""
    dtype = dtype_under_test(recorder)
    for sample in _reduction_samples(subject.info, dtype):
        recorder.samples(1, 1)
        reference = reference_for(Call(subject, dtype, sample))
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        outcome = run_operator(target, subject.info.op, copy)
        if reference.ok and outcome.ok:
            basis = (
                Basis.PARITY
                if sample.kwargs.get("dim") == ()  # no page says what dim=() means
                else basis_of_values(subject.name, sample, reference.outputs)
            )
            with recorder.with_basis(basis):
                compare_outputs(target, recorder, reference, outcome.value, policy=SAME_BITS_AGREE)
            _check_shape(recorder, sample, outcome.value)
        elif reference.ok:
            report_failed_call(target, recorder, sample, outcome)
        else:
            message = f"({sample.describe()}) is accepted, but the CPU raises {one_line(reference.error)}"  # type: ignore[arg-type]
            fact(recorder, not outcome.ok, Kind.ERROR_TYPE, message, sample=sample.index, basis=Basis.PARITY)
    _check_reduction_of_nothing(target, subject, recorder, dtype)


def _random_values(dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(-4, 5, _SHAPE, generator=generator)
    if dtype == torch.bool:
        return numbers > 0
    if dtype.is_floating_point or dtype.is_complex:
        return (torch.randn(_SHAPE, generator=generator) * 2).to(dtype)
    return numbers.to(dtype)


def _reduction_samples(info: Any, dtype: torch.dtype) -> Iterator[Sample]:
    arguments: list[dict[str, Any]] = [{}, {"dim": 0}, {"dim": -1}, {"dim": 1, "keepdim": True}]
    arguments += [{"keepdim": True}, {"dim": None}, {"dim": None, "keepdim": True}, {"dim": 3}, {"dim": -4}]
    arguments += [{"dim": (0, 2)}, {"dim": (-1, 1), "keepdim": True}, {"dim": ()}]
    if info.supports_multiple_dims:
        arguments += [{"dim": (2, 0)}, {"dim": (2, 0), "keepdim": True}, {"dim": (), "keepdim": True}]
        arguments += [{"dim": (0, 0)}, {"dim": (0, -3)}, {"dim": (0, 3)}]
    index = 0
    for kwargs in arguments:
        yield Sample(index, _random_values(dtype, index), (), kwargs)
        index += 1
    yield Sample(index, torch.ones(_SHAPE, dtype=dtype), (), {"dim": 0})  # all elements are equal
    yield Sample(index + 1, torch.ones((), dtype=dtype))  # a tensor without dimensions
    signs = (
        torch.where(_random_values(dtype, 1).flatten().real > 0, 1, -1)
        if dtype != torch.bool
        else torch.ones(60)
    )
    yield Sample(index + 2, signs.to(dtype).repeat(300))  # a long sum that is exact in any order
    yield Sample(index + 3, signs.to(dtype).repeat(35).view(42, 50), (), {"dim": 1})
    index += 4
    if dtype.is_floating_point:
        special = _random_values(dtype, index)
        special[0, 0, 0], special[1, 1, 1], special[2, 2, 2] = float("inf"), float("-inf"), float("nan")
        yield Sample(index, special, (), {"dim": 0})
        yield Sample(index + 1, special)


def _check_shape(recorder: Recorder, sample: Sample, result: Any) -> None:
    """Compare the shape of the result with the shape that the arguments determine, without a CPU call."""
    if sample.kwargs.get("dim") in (None, ()) or not isinstance(result, torch.Tensor):
        return
    dim = sample.kwargs["dim"]
    listed = [d % sample.input.dim() for d in (dim if isinstance(dim, tuple) else (dim,))]
    dims = set(listed)
    if len(dims) < len(listed):
        return  # no page says what a repeated dimension means
    keep = sample.kwargs.get("keepdim", False)
    expected_shape = [
        1 if d in dims else n for d, n in enumerate(sample.input.shape) if keep or d not in dims
    ]
    message = f"({sample.describe()}) gives shape {list(result.shape)}, expected {expected_shape}."
    fact(recorder, list(result.shape) == expected_shape, Kind.METADATA, message, sample=sample.index)


def _check_reduction_of_nothing(
    target: Target, subject: Subject, recorder: Recorder, dtype: torch.dtype
) -> None:
    identity = subject.info.identity
    if identity is None:
        return
    sample = Sample(99, torch.empty((2, 0), dtype=dtype), (), {"dim": 1})
    copy = copy_sample_to_device(target, recorder, sample)
    if copy is None:
        return
    outcome = run_operator(target, subject.info.op, copy)
    if not outcome.ok:
        report_failed_call(target, recorder, sample, outcome)
        return
    expected = torch.full((2,), identity, dtype=torch.float64)
    compare_values(recorder, outcome.value, expected, label="the reduction of zero elements", sample=99)
