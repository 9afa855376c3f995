"""Check that work on one stream runs in the order in which it was issued."""

from __future__ import annotations

from conformance.device import api as device_api
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

STEPS = 20


@register(
    "stream_order",
    subject_kind="device",
    statement=("Work on one stream runs in order and is complete after the stream was synchronized."),
    documentation="generated/torch.Stream.html",
    level="core",
    applies=dtypes_function_for_part("Stream"),
    capabilities=("streams",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run a chain of dependent steps on a delayed stream and compare the results."""
    api = device_api.device_api(target)
    x, y = device_zeros(target), device_zeros(target)

    def run_steps_on_side_stream() -> None:
        stream = api.new_stream()
        with api.use_stream(stream):
            delay_stream(api, recorder)
            for _ in range(STEPS):
                x.mul_(2)
                x.add_(1)
            y.copy_(x)
            x.fill_(-1)
        stream.synchronize()

    if run_and_record_error(target, recorder, "work on a stream", run_steps_on_side_stream).ok:
        check_all_equal(recorder, y, 2**STEPS - 1, "a chain of steps on one stream")
        check_all_equal(recorder, x, -1, "the last step on the stream")
