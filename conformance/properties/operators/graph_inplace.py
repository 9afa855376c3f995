"""A replayed graph writes to its inputs as often as it is replayed."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _compile_checks, _graph_replay
from conformance.properties.operators._transformed_samples import ABOUT_MEMORY
from conformance.properties.operators.compile_inplace import changes_metadata, fits
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import first_dtypes
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not callable(subject.info.inplace_variant):
        return []
    if not _graph_replay.can_graph(target, subject) or _compile_checks.is_seeded(subject):
        return []
    if changes_metadata(subject.info.name) or subject.name in ABOUT_MEMORY:
        return []
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool", "bfloat16"), 3)


@register(
    "graph_inplace",
    subject_kind="operator",
    statement=(
        "A captured in-place call writes the oracle's value to the memory of its input with each replay."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=applies,
    capabilities=("graphs", "inplace"),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    replays = _graph_replay.Replays(target, subject, recorder)
    form = subject.info.inplace_variant
    fitting = 0
    for sample, want in _graph_replay.cases(target, subject, recorder, LIMIT):
        if not fits(sample, want):
            continue
        fitting += 1
        capture = replays.capture(sample, lambda copy: copy.call(form), label="capturing the in-place form")
        if capture is None:
            continue
        copy, graph = capture
        given, address = copy.input, copy.input.data_ptr()
        # What the input holds after capture depends on whether capturing runs; the data are given anew.
        rounds = [(sample, want), replays.fresh_data(sample)]
        for data in rounds:
            if data is None or not replays.give(copy, data[0]) or not replays.replay(sample, graph):
                continue
            what = "the input after replaying the in-place form"
            good = compare_outputs(target, recorder, subject, data[0], given, data[1], label=what)
            replays.proved(good)
        message = "replaying the in-place form has moved its input to other memory."
        fact(recorder, given.data_ptr() == address, Kind.ALIASING, message, sample=sample.index)
    if fitting:
        replays.settle()
    else:
        recorder.note("no sample has a result that fits into its input")
        recorder.compared(1)
