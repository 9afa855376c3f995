"""Events order work across streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.device import api as device_api
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.device._device_checks import about, do, holds, slow, zeros
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def _wait_event(api: device_api.DeviceApi, producer: Any, consumer: Any) -> None:
    event = api.event()
    event.record(producer)
    consumer.wait_event(event)


def _record_and_wait(api: device_api.DeviceApi, producer: Any, consumer: Any) -> None:
    event = producer.record_event()
    event.wait(consumer)


def _wait_stream(api: device_api.DeviceApi, producer: Any, consumer: Any) -> None:
    consumer.wait_stream(producer)


def _host(api: device_api.DeviceApi, producer: Any, consumer: Any) -> None:
    event = api.event()
    event.record(producer)
    event.synchronize()


WAYS: dict[str, Callable[[device_api.DeviceApi, Any, Any], None]] = {
    "Stream.wait_event": _wait_event,
    "Event.wait": _record_and_wait,
    "Stream.wait_stream": _wait_stream,
    "Event.synchronize": _host,
}


@register(
    "event_order",
    subject_kind="device",
    statement=(
        "A stream that waits for an event or a stream sees what was written before it, and nothing later."
    ),
    documentation="generated/torch.Event.html",
    level="core",
    applies=about("Event"),
    capabilities=("streams", "events"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Write on one stream and read on another, ordered in each of the ways."""
    api = device_api.device_api(target)
    # Twice, with the same values: a device may run the first call of a kind at once, with nothing to order.
    for place, (way, wait) in [*enumerate(WAYS.items()), *enumerate(WAYS.items())]:
        x, y = zeros(target), zeros(target)

        def work(x: Any = x, y: Any = y, wait: Any = wait, value: int = 7 + place) -> None:
            producer, consumer = api.stream(), api.stream()
            with api.on(producer):
                slow(api, recorder)
                x.fill_(value)
            wait(api, producer, consumer)
            with api.on(consumer):
                y.copy_(x)
            # The producer's next write must wait in turn, else the copy may see it.
            producer.wait_stream(consumer)
            with api.on(producer):
                x.fill_(-1)
            consumer.synchronize()
            producer.synchronize()

        if do(target, recorder, way, work).ok:
            holds(recorder, y, 7 + place, f"what a stream read after {way}")
            holds(recorder, x, -1, f"what was written after the reader of {way}")
