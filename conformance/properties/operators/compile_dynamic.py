"""Property: one compiled function serves several sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.oracle import relations
from conformance.oracle.reference import Call, Reference, reference_for
from conformance.properties.operators import _compiled_calls
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    target_declares_call,
)
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

#: The operators to check: examples of operators whose result has the size of their input, and of reductions.
OPERATORS = frozenset(
    [
        "abs",
        "add",
        "addcmul",
        "atan2",
        "bitwise_and",
        "ceil",
        "clamp",
        "clone",
        "cos",
        "cumsum",
        "div.no_rounding_mode",
        "eq",
        "erf",
        "exp",
        "expm1",
        "flip",
        "float",
        "fmod",
        "gt",
        "isnan",
        "lerp",
        "log",
        "logical_and",
        "logsumexp",
        "maximum",
        "mean",
        "mul",
        "neg",
        "nn.functional.gelu",
        "nn.functional.relu",
        "nn.functional.silu",
        "nn.functional.softplus",
        "pow",
        "prod",
        "reciprocal",
        "remainder",
        "rsqrt",
        "sigmoid",
        "sign",
        "sin",
        "softmax",
        "sqrt",
        "sub",
        "sum",
        "amax",
        "amin",
        "any",
        "argmax",
        "tanh",
        "to",
        "tril",
        "triu",
        "var",
        "where",
        "zeros_like",
        "full_like",
        "log_softmax",
        "norm",
        "roll",
    ]
)
#: Factors by which the sample is enlarged, one for each call. The first call may have a graph of its own; the
#: later calls must share one graph.
GROWTH = (2, 3, 5)


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if subject.name not in OPERATORS or not _compiled_calls.can_be_captured_by_dynamo(subject):
        return []
    return first_dtypes(target, subject, ("float32", "int64", "bool"))


@register(
    "compile_dynamic",
    subject_kind="operator",
    statement=(
        "With dynamic=True one compiled function gives correct values for several sizes and is compiled "
        "at most twice."
    ),
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="The compiled operator with dynamic shapes must agree with the eager one on the same device",
    level="core",
    applies=dtypes_to_check,
    capabilities=("compile",),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compile with dynamic shapes, call with several sizes, and check the values and the number of graphs."""
    from conformance.device.compilation import compile_with_log

    cpu_operator = _compiled_calls.unseeded_operator(find("operator", subject.name))
    for sizes in _samples_in_several_sizes(target, subject, recorder):
        call, log = compile_with_log(target, _compiled_calls.unseeded_operator(subject), dynamic=True)
        for sample, reference in sizes:
            copy = copy_sample_to_device(target, recorder, sample)
            if copy is None:
                continue
            outcome = run_operator(target, call, copy)
            if outcome.ok:
                compare_outputs(target, recorder, reference, outcome.value)
                continue
            limit = _error_on_cpu(cpu_operator, [sample for sample, _ in sizes])
            if limit is None:
                report_failed_call(target, recorder, sample, outcome, "the compiled operator of another size")
            else:
                recorder.note(f"not captured with dynamic shapes on the CPU either: {limit}")
            break
        message = f"{len(sizes)} sizes needed {len(log.graphs)} graphs, expected at most 2."
        fact(recorder, len(log.graphs) <= 2, Kind.STATE, message, basis=Basis.PARITY)
        recorder.samples(len(sizes), 0)
        if not log.has_run_operator_calls:
            recorder.vacuous("no call of the subject ran compiled with dynamic shapes")
        return
    recorder.vacuous("no sample can be made larger")


def _error_on_cpu(cpu_operator: Callable[..., Any], sizes: list[Sample]) -> str | None:
    from conformance.device.compilation import compile_with_log

    call, _ = compile_with_log(None, cpu_operator, dynamic=True)
    for sample in sizes:
        with (
            torch_testing_internals.torch_seeded(0),
            torch_testing_internals.silence_warnings(),
            torch.no_grad(),
        ):
            outcome = attempt(functools.partial(to_host(sample).call, call))
        if not outcome.ok:
            assert outcome.error is not None
            return one_line(outcome.error, 160)
    return None


def _samples_in_several_sizes(
    target: Target, subject: Subject, recorder: Recorder
) -> Iterator[list[tuple[Sample, Reference]]]:
    """Yield, for each sample that can be enlarged, a list of its enlargements with their references."""
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype)
    for index in range(samples.available):
        sample = samples[index]
        if relations.is_only_metadata_specified(subject.name, sample) or not _can_grow(sample):
            continue
        if not target_declares_call(target, recorder, sample):
            continue
        larger_samples = [_enlarge_sample(sample, factor) for factor in GROWTH]
        expected = [reference_for(Call(subject, dtype, larger)) for larger in larger_samples]
        if all(reference.ok for reference in expected):
            yield list(zip(larger_samples, expected, strict=True))


def _can_grow(sample: Sample) -> bool:
    """Return True if all tensors have the shape of the first tensor, with at least two elements per
    dimension.
    """
    tensors = sample.tensors()
    return (
        bool(tensors)
        and isinstance(sample.input, torch.Tensor)
        and all(t.layout is torch.strided and t.shape == sample.input.shape for t in tensors)
        and sample.input.dim() > 0
        and min(sample.input.shape) > 1
    )


def _enlarge_sample(sample: Sample, factor: int) -> Sample:
    """Return the sample with every tensor repeated along its first dimension."""

    def enlarged_leaf(value: Any) -> Any:
        return torch.cat([value] * factor) if isinstance(value, torch.Tensor) else value

    host = to_host(sample)
    with torch.no_grad():
        input, args, kwargs = trees.tree_map(enlarged_leaf, host.arguments)
    return host.replace(input=input, args=args, kwargs=kwargs)
