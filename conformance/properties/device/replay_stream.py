"""Graphs are replayed on the current stream, in its order."""

from __future__ import annotations

from conformance.device import api as device_api
from conformance.device.capture import captured
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.device._device_checks import about, do, holds, slow, zeros
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


@register(
    "replay_stream",
    subject_kind="device",
    statement="Replays on a side stream run in order with the copies around them.",
    documentation="notes/cuda.html",
    level="core",
    applies=about("Graph"),
    capabilities=("graphs", "streams"),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x, first, second = zeros(target), zeros(target), zeros(target)
    x.mul(2).add(1)
    capture = do(target, recorder, "capturing", lambda: captured(target, lambda: x.mul(2).add(1)))
    if not capture.ok:
        return
    graph = capture.value

    def work() -> None:
        stream = api.stream()
        with api.on(stream):
            slow(api, recorder)
            x.fill_(10)
            graph.start()
            first.copy_(graph.value)
            x.fill_(20)
            graph.start()
            second.copy_(graph.value)
            x.fill_(-1)
        stream.synchronize()

    if do(target, recorder, "replaying on a side stream", work).ok:
        holds(recorder, first, 21, "the first replay on a side stream")
        holds(recorder, second, 41, "the second replay on a side stream")
