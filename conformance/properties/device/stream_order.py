"""Work on one stream runs in the order in which it was given."""

from __future__ import annotations

from conformance.device import api as device_api
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.device._device_checks import about, do, holds, slow, zeros
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

STEPS = 20


@register(
    "stream_order",
    subject_kind="device",
    statement="Work on one stream runs in order, and is done when the stream has been waited for.",
    documentation="generated/torch.Stream.html",
    level="core",
    applies=about("Stream"),
    capabilities=("streams",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x, y = zeros(target), zeros(target)

    def work() -> None:
        stream = api.stream()
        with api.on(stream):
            slow(api, recorder)
            for _ in range(STEPS):
                x.mul_(2)
                x.add_(1)
            y.copy_(x)
            x.fill_(-1)
        stream.synchronize()

    if do(target, recorder, "work on a stream", work).ok:
        holds(recorder, y, 2**STEPS - 1, "a chain of steps on one stream")
        holds(recorder, x, -1, "the last step on the stream")
