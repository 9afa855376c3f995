"""Calls that cannot be captured are refused, not captured wrongly."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.device.capture import capture_call
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.replay_data import copy_into, renewed_with_oracle
from conformance.properties.operators import _compile_checks, _graph_replay
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes, pristine
from conformance.properties.shared.execution import _with_expected, copy_in, run
from conformance.samples import sample_limit
from conformance.samples.dispatched_kernels import kernels_of
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 2


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not target.has_graphs:
        return []
    if not _graph_replay.needs_host(subject) and not _graph_replay.sometimes_needs_host(subject):
        return []
    return first_dtypes(target, subject, ("float32", "int64", "bool"))


@register(
    "graph_refusal",
    subject_kind="operator",
    statement=(
        "A call for which the host needs a value is refused with a clean error when it is captured, after "
        "which the device captures others; or its graph follows new data."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=applies,
    capabilities=("graphs",),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype)
    recorder.samples(0, samples.available)
    op, tried = _compile_checks.unseeded_operator(subject), 0
    for sample, _ in _with_expected(
        target, subject, recorder, dtype, samples, samples.chosen(sample_limit.limit(8))
    ):
        kernels = kernels_of(pristine(subject).op, sample)
        if kernels is None or not kernels.host or tried == LIMIT:
            continue
        if any(t.layout is not torch.strided for t in sample.tensors()):
            continue
        warm, copy = copy_in(target, recorder, sample), copy_in(target, recorder, sample)
        if warm is None or copy is None or not run(target, op, warm).ok:
            continue  # eager mode judges that
        outcome = attempt(
            _graph_replay.quietly(lambda copy=copy: capture_call(target, lambda: copy.call(op)))
        )  # type: ignore[misc]
        if outcome.ok:
            tried += _follows(target, subject, recorder, sample, copy, outcome.value)
            continue
        tried += 1
        assert outcome.error is not None
        recorder.note(f"refused: {one_line(outcome.error, 160)}")
        _graph_replay.clean_refusal(target, recorder, sample, outcome.error)
        _still_captures(target, recorder, sample)


def _follows(
    target: Target, subject: Subject, recorder: Recorder, sample: Sample, copy: Sample, graph: object
) -> bool:
    """Check the graph of a capture that was not refused, with data for which shapes may differ.

    Returns False if no such data can be made, so that nothing was seen.
    """
    fresh = renewed_with_oracle(subject, dtype_under_test(recorder), sample)
    if fresh is None:
        recorder.note(f"no other data can be made for sample {sample.index}")
        return False
    copy_into(copy, fresh[0])
    outcome = attempt(graph.replay)  # type: ignore[attr-defined]
    if not outcome.ok:
        assert outcome.error is not None
        _graph_replay.clean_refusal(target, recorder, sample, outcome.error)
        return True
    value = graph.value  # type: ignore[attr-defined]
    what = "the result of a capture that was not refused, replayed on other data"
    compare_outputs(target, recorder, subject, fresh[0], value, fresh[1], label=what)
    return True


def _still_captures(target: Target, recorder: Recorder, sample: Sample) -> None:
    x = torch.zeros(4, device=target.device)

    def work() -> list[float]:
        graph = capture_call(target, lambda: x + 1)
        x.fill_(2)
        graph.replay()
        values: list[float] = graph.value.tolist()
        return values

    outcome = attempt(work)
    shown = outcome.value if outcome.error is None else one_line(outcome.error)
    message = f"after a refused capture, a graph of x + 1 with x = 2 gives {shown}."
    fact(recorder, outcome.ok and outcome.value == [3.0] * 4, Kind.STATE, message, sample=sample.index)
