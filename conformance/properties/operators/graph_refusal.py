"""Property: the device refuses calls that it cannot capture, instead of capturing them incorrectly."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.device.capture import capture_call
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.graph_replay_inputs import copy_values, replay_data_with_reference
from conformance.properties.operators import _captured_calls, _compiled_calls
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes, unmodified_info
from conformance.properties.shared.execution import copy_sample_to_device, pair_with_references, run_operator
from conformance.samples import sample_limit
from conformance.samples.dispatched_kernels import kernels_of
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 2


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not target.has_graphs:
        return []
    if not _captured_calls.always_needs_host(subject) and not _captured_calls.sometimes_needs_host(subject):
        return []
    return first_dtypes(target, subject, ("float32", "int64", "bool"))


@register(
    "graph_refusal",
    subject_kind="operator",
    statement=(
        "Capture of a call for which the host needs a value either raises a clean error, after which the "
        "device can capture other calls, or gives a graph that follows new data."
    ),
    documentation="notes/cuda.html",
    basis="parity",
    ground=(
        "The note says that synchronising calls likely raise a runtime error; no page demands a clean refusal"
    ),
    level="core",
    applies=dtypes_to_check,
    capabilities=("graphs",),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Capture calls that need the host. Check that each capture is refused cleanly, or that its replay gives
    the results for other data.
    """
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype)
    recorder.samples(0, samples.available)
    op, tried = _compiled_calls.unseeded_operator(subject), 0
    for sample, _ in pair_with_references(
        target, subject, recorder, dtype, samples, samples.chosen(sample_limit.limit(8))
    ):
        kernels = kernels_of(unmodified_info(subject).op, sample)
        if kernels is None or not kernels.host or tried == LIMIT:
            continue
        if any(t.layout is not torch.strided for t in sample.tensors()):
            continue
        warm, copy = (
            copy_sample_to_device(target, recorder, sample),
            copy_sample_to_device(target, recorder, sample),
        )
        if warm is None or copy is None or not run_operator(target, op, warm).ok:
            continue  # the properties of mode eager check that the call itself works
        outcome = attempt(
            _captured_calls.wrapped_without_warnings(
                lambda copy=copy: capture_call(target, lambda: copy.call(op))  # type: ignore[misc]
            )
        )
        if outcome.ok:
            tried += _check_accepted_capture(target, subject, recorder, sample, copy, outcome.value)
            continue
        tried += 1
        assert outcome.error is not None
        recorder.note(f"refused: {one_line(outcome.error, 160)}")
        _captured_calls.check_clean_refusal(target, recorder, sample, outcome.error)
        _check_next_capture(target, recorder, sample)


def _check_accepted_capture(
    target: Target, subject: Subject, recorder: Recorder, sample: Sample, copy: Sample, graph: object
) -> bool:
    """Replay a captured graph on other data, which may change the shapes of results, and check the results.

    Return False if no other data can be made, so that nothing was checked.
    """
    replay_data = replay_data_with_reference(subject, dtype_under_test(recorder), sample)
    if replay_data is None:
        recorder.note(f"no other data can be made for sample {sample.index}")
        return False
    copy_values(copy, replay_data[0])
    outcome = attempt(graph.replay)  # type: ignore[attr-defined]
    if not outcome.ok:
        assert outcome.error is not None
        _captured_calls.check_clean_refusal(target, recorder, sample, outcome.error)
        return True
    value = graph.value  # type: ignore[attr-defined]
    label = "the result of a capture that was not refused, replayed on other data"
    compare_outputs(target, recorder, replay_data[1], value, label=label)
    return True


def _check_next_capture(target: Target, recorder: Recorder, sample: Sample) -> None:
    x = torch.zeros(4, device=target.device)

    def capture_and_replay() -> list[float]:
        graph = capture_call(target, lambda: x + 1)
        x.fill_(2)
        graph.replay()
        values: list[float] = graph.value.tolist()
        return values

    outcome = attempt(capture_and_replay)
    description = outcome.value if outcome.error is None else one_line(outcome.error)
    message = f"after a refused capture, a graph of x + 1 with x = 2 gives {description}."
    fact(recorder, outcome.ok and outcome.value == [3.0] * 4, Kind.STATE, message, sample=sample.index)
