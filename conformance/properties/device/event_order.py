"""Check that events order work across streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def _stream_waits_for_event(api: device_api.DeviceApi, producer: Any, consumer: Any) -> None:
    event = api.new_event()
    event.record(producer)
    consumer.wait_event(event)


def _record_event_and_wait(api: device_api.DeviceApi, producer: Any, consumer: Any) -> None:
    event = producer.record_event()
    event.wait(consumer)


def _stream_waits_for_stream(api: device_api.DeviceApi, producer: Any, consumer: Any) -> None:
    consumer.wait_stream(producer)


def _host_waits_for_event(api: device_api.DeviceApi, producer: Any, consumer: Any) -> None:
    event = api.new_event()
    event.record(producer)
    event.synchronize()


WAIT_METHODS: dict[str, Callable[[device_api.DeviceApi, Any, Any], None]] = {
    "Stream.wait_event": _stream_waits_for_event,
    "Event.wait": _record_event_and_wait,
    "Stream.wait_stream": _stream_waits_for_stream,
    "Event.synchronize": _host_waits_for_event,
}


@register(
    "event_order",
    subject_kind="device",
    statement=(
        "A stream that waits for an event or for another stream reads the data written before it, and "
        "nothing that is written later."
    ),
    documentation="generated/torch.Event.html",
    level="core",
    applies=dtypes_function_for_part("Event"),
    capabilities=("streams", "events"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Write on one stream and read on another, ordered by each wait method."""
    api = device_api.device_api(target)
    # Run each method twice with the same values. A device may run the first call of an operator
    # synchronously, and then a missing wait has no effect.
    for index, (way, wait) in [*enumerate(WAIT_METHODS.items()), *enumerate(WAIT_METHODS.items())]:
        x, y = device_zeros(target), device_zeros(target)

        def work(x: Any = x, y: Any = y, wait: Any = wait, value: int = 7 + index) -> None:
            producer, consumer = api.new_stream(), api.new_stream()
            with api.use_stream(producer):
                delay_stream(api, recorder)
                x.fill_(value)
            wait(api, producer, consumer)
            with api.use_stream(consumer):
                y.copy_(x)
            # The producer's next write must wait too, or the consumer's copy may read the new values.
            producer.wait_stream(consumer)
            with api.use_stream(producer):
                x.fill_(-1)
            consumer.synchronize()
            producer.synchronize()

        if run_and_record_error(target, recorder, way, work).ok:
            check_all_equal(recorder, y, 7 + index, f"the values that a stream read after {way}")
            check_all_equal(recorder, x, -1, f"the values written after the reader of {way}")
