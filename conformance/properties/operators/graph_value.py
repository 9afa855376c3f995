"""Property: a replayed graph computes from the current values of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _captured_calls, _compiled_calls
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtypes_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 8


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    return dtypes_of(target, subject) if _captured_calls.can_capture(target, subject) else []


@register(
    "graph_value",
    subject_kind="operator",
    statement="A replay of a captured call gives the reference values of the current data of its inputs.",
    documentation="notes/cuda.html",
    level="bringup",
    applies=dtypes_to_check,
    capabilities=("graphs",),
    smoke=True,
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Capture the operator, replay it on two sets of data, and compare with the references."""
    replays = _captured_calls.GraphReplays(target, subject, recorder)
    op = _compiled_calls.unseeded_operator(subject)
    for sample, reference in _captured_calls.capturable_samples(target, subject, recorder, LIMIT):
        capture = replays.capture(sample, lambda copy: copy.call(op))
        if capture is None:
            continue
        copy, graph = capture
        overwritten = replays.overwrite_results(copy, graph.value)
        if not replays.replay(sample, graph):
            continue
        label = "the replayed result"
        agrees = compare_outputs(target, recorder, reference, graph.value, label=label)
        replays.record_proof(agrees and overwritten)
        replay_data = replays.sample_with_replay_data(sample)
        if replay_data is None or not replays.copy_into_captured_inputs(copy, replay_data[0]):
            continue
        replays.overwrite_results(copy, graph.value)
        if replays.replay(sample, graph):
            label = "the result replayed on other data"
            agrees = compare_outputs(target, recorder, replay_data[1], graph.value, label=label)
            replays.record_proof(agrees)
    replays.require_evidence()
