"""Property: a captured graph uses the current data of strided inputs and does not change other memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_exact, to_host_tensor
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.graph_replay_inputs import storage_as_bytes
from conformance.oracle.reference import Call, reference_for
from conformance.properties.operators import _captured_calls, _compiled_calls
from conformance.properties.operators._transformed_samples import (
    DEFINED_BY_MEMORY,
    cpu_accepts,
    with_transformed_tensors,
)
from conformance.properties.operators.compile_views import with_transposed_gaps_or_offset
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

LIMIT = 3


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not _captured_calls.can_capture(target, subject) or subject.name in DEFINED_BY_MEMORY:
        return []
    if _compiled_calls.is_seeded(subject):
        return []  # some random operators write to their input, which this property forbids
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool"), 2)


@register(
    "graph_views",
    subject_kind="operator",
    statement=(
        "A call captured on strided views follows the data of the views and does not change the memory "
        "between their elements. A tensor that is passed twice remains one tensor."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=dtypes_to_check,
    capabilities=("graphs", "views"),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Capture the operator on strided views and on a repeated argument, replay, and compare."""
    replays = _captured_calls.GraphReplays(target, subject, recorder)
    tried = 0
    for sample, reference in _captured_calls.capturable_samples(target, subject, recorder, LIMIT):
        transformed_sample = with_transformed_tensors(sample, with_transposed_gaps_or_offset)
        if transformed_sample is None or not cpu_accepts(
            find("operator", subject.name).info.op, transformed_sample
        ):
            continue
        tried += 1
        _check_strided_inputs(target, subject, recorder, replays, sample, transformed_sample, reference)
    tried += _check_repeated_argument(target, subject, recorder, replays)
    if tried:
        replays.require_evidence()
    else:
        recorder.note("the operator has no tensor argument that could have another layout")
        recorder.compared(1)


def _check_strided_inputs(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    replays: _captured_calls.GraphReplays,
    sample: Sample,
    transformed_sample: Sample,
    reference: object,
) -> None:
    op = _compiled_calls.unseeded_operator(subject)
    capture = replays.capture(
        sample,
        lambda copy: copy.call(op),
        transformed_sample=transformed_sample,
        label="capturing strided inputs",
    )
    if capture is None:
        return
    copy, graph = capture
    inputs = [t for t in copy.tensors() if t.layout is torch.strided]
    replay_data = replays.sample_with_replay_data(sample)
    for data in ((sample, reference), replay_data):
        if data is None or not replays.copy_into_captured_inputs(copy, data[0]):
            continue
        before = [_unused_bytes(t) for t in inputs]
        overwritten = replays.overwrite_results(copy, graph.value)
        if not replays.replay(sample, graph):
            continue
        label = "the result replayed on strided inputs"
        agrees = compare_outputs(target, recorder, data[1], graph.value, label=label)  # type: ignore[arg-type]
        replays.record_proof(agrees and (overwritten or data is replay_data))
        for unused_before, tensor in zip(before, inputs, strict=True):
            label = "the memory between the elements of an input after replay"
            compare_exact(recorder, _unused_bytes(tensor), unused_before, label=label, sample=sample.index)


def as_function_of_sample(op: Callable[..., Any]) -> Callable[[Sample], Any]:
    """Return a function that calls ``op`` with the arguments of a sample."""
    return lambda sample: sample.call(op)


def _unused_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor's memory that do not belong to its elements, as a CPU tensor."""
    rows = to_host_tensor(storage_as_bytes(tensor)).reshape(-1, tensor.itemsize)
    unused = torch.ones(rows.shape[0], dtype=torch.bool)
    unused.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(False)
    return rows[unused]


def _check_repeated_argument(
    target: Target, subject: Subject, recorder: Recorder, replays: _captured_calls.GraphReplays
) -> int:
    """Check a call with its first tensor passed as its first and its second argument.

    Return the number of attempted captures: 1, or 0 if no suitable call exists.
    """
    for sample, _ in _captured_calls.capturable_samples(target, subject, recorder, 1):
        second = sample.args[0] if sample.args else None
        first_argument = sample.input
        if not isinstance(second, torch.Tensor) or not isinstance(first_argument, torch.Tensor):
            return 0
        if (
            first_argument.shape != second.shape
            or first_argument.dtype != second.dtype
            or not first_argument.numel()
        ):
            return 0
        double = sample.replace(args=(first_argument, *sample.args[1:]))
        reference = reference_for(Call(subject, dtype_under_test(recorder), double))
        if not reference.ok or not cpu_accepts(find("operator", subject.name).info.op, double):
            return 0
        op = _compiled_calls.unseeded_operator(subject)
        capture = replays.capture(
            double, as_function_of_sample(op), label="capturing one tensor passed twice"
        )
        if capture is None:
            return 1
        copy, graph = capture
        overwritten = replays.overwrite_results(copy, graph.value)
        if replays.replay(double, graph):
            label = "the replayed result of one tensor passed twice"
            agrees = compare_outputs(target, recorder, reference, graph.value, label=label)
            replays.record_proof(agrees and overwritten)
        return 1
    return 0
