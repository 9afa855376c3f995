"""Check that a graph is replayed on the current stream, in order with other work."""

from __future__ import annotations

from conformance.device import api as device_api
from conformance.device.capture import capture_call
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.device._device_checks import (
    check_all_equal,
    delay_stream,
    device_zeros,
    dtypes_function_for_part,
    run_and_record_error,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


@register(
    "replay_stream",
    subject_kind="device",
    statement="Replays on a side stream run in order with the copies around them.",
    documentation="notes/cuda.html",
    level="core",
    applies=dtypes_function_for_part("Graph"),
    capabilities=("graphs", "streams"),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Replay a graph twice on a delayed side stream, between writes of its input and copies of its output."""
    api = device_api.device_api(target)
    x, first, second = device_zeros(target), device_zeros(target), device_zeros(target)
    x.mul(2).add(1)
    capture = run_and_record_error(
        target, recorder, "capturing", lambda: capture_call(target, lambda: x.mul(2).add(1))
    )
    if not capture.ok:
        return
    graph = capture.value

    def replay_on_side_stream() -> None:
        stream = api.new_stream()
        with api.use_stream(stream):
            delay_stream(api, recorder)
            x.fill_(10)
            graph.start_replay()
            first.copy_(graph.value)
            x.fill_(20)
            graph.start_replay()
            second.copy_(graph.value)
            x.fill_(-1)
        stream.synchronize()

    if run_and_record_error(target, recorder, "replaying on a side stream", replay_on_side_stream).ok:
        check_all_equal(recorder, first, 21, "the first replay on a side stream")
        check_all_equal(recorder, second, 41, "the second replay on a side stream")
