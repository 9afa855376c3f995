"""A replayed graph computes from the present values of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _compile_checks, _graph_replay
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtypes_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 8


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return dtypes_of(target, subject) if _graph_replay.can_graph(target, subject) else []


@register(
    "graph_value",
    subject_kind="operator",
    statement="Replayed, a captured call gives the oracle's values of the data that its inputs hold by then.",
    documentation="notes/cuda.html",
    level="bringup",
    applies=applies,
    capabilities=("graphs",),
    smoke=True,
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    replays = _graph_replay.Replays(target, subject, recorder)
    op = _compile_checks.unseeded_operator(subject)
    for sample, want in _graph_replay.cases(target, subject, recorder, LIMIT):
        capture = replays.capture(sample, lambda copy: copy.call(op))
        if capture is None:
            continue
        copy, graph = capture
        spoilt = replays.spoil(copy, graph.value)
        if not replays.replay(sample, graph):
            continue
        what = "the replayed result"
        good = compare_outputs(target, recorder, subject, sample, graph.value, want, label=what)
        replays.proved(good and spoilt)
        fresh = replays.fresh_data(sample)
        if fresh is None or not replays.give(copy, fresh[0]):
            continue
        replays.spoil(copy, graph.value)
        if replays.replay(sample, graph):
            what = "the result replayed on other data"
            good = compare_outputs(target, recorder, subject, fresh[0], graph.value, fresh[1], label=what)
            replays.proved(good)
    replays.settle()
