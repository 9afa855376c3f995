"""Property: a captured in-place call writes to its input at each replay."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.storages import address_of
from conformance.model.verdicts import Kind
from conformance.properties.operators import _captured_calls, _compiled_calls
from conformance.properties.operators._transformed_samples import DEFINED_BY_MEMORY
from conformance.properties.operators.compile_inplace import changes_metadata, result_fits_input
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import first_dtypes
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not callable(subject.info.inplace_variant):
        return []
    if not _captured_calls.can_capture(target, subject) or _compiled_calls.is_seeded(subject):
        return []
    if changes_metadata(subject.info.name) or subject.name in DEFINED_BY_MEMORY:
        return []
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool", "bfloat16"), 3)


@register(
    "graph_inplace",
    subject_kind="operator",
    statement=(
        "A captured in-place call writes the reference values to the memory of its input at each replay."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=dtypes_to_check,
    capabilities=("graphs", "inplace"),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Capture the in-place form, replay it on two sets of data, and compare its input with the reference."""
    replays = _captured_calls.GraphReplays(target, subject, recorder)
    form = subject.info.inplace_variant
    fitting = 0
    for sample, reference in _captured_calls.capturable_samples(target, subject, recorder, LIMIT):
        if not result_fits_input(sample, reference):
            continue
        fitting += 1
        capture = replays.capture(sample, lambda copy: copy.call(form), label="capturing the in-place form")
        if capture is None:
            continue
        copy, graph = capture
        input_on_device, address = copy.input, address_of(copy.input)
        # A capture may or may not run the call, so the input's data are copied in again before each replay.
        rounds = [(sample, reference), replays.sample_with_replay_data(sample)]
        for data in rounds:
            if (
                data is None
                or not replays.copy_into_captured_inputs(copy, data[0])
                or not replays.replay(sample, graph)
            ):
                continue
            label = "the input after replaying the in-place form"
            agrees = compare_outputs(target, recorder, data[1], input_on_device, label=label)
            replays.record_proof(agrees)
        message = "replaying the in-place form has moved its input to other memory."
        fact(recorder, address_of(input_on_device) == address, Kind.ALIASING, message, sample=sample.index)
    if fitting:
        replays.require_evidence()
    else:
        recorder.note("no sample has a result that fits into its input")
        recorder.compared(1)
