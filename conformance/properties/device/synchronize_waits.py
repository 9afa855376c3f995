"""Check that synchronizing a device, a stream or an event waits for its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.device import api as device_api
from conformance.device.api import DeviceApi
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
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
    "synchronize_waits",
    subject_kind="device",
    statement=(
        "Each way to wait for the device, a stream or an event returns only when the earlier work is "
        "done. So does a copy to the host. A stream that waits for an event does not finish before the "
        "event, and the host does not wait for the event."
    ),
    documentation="generated/torch.accelerator.synchronize.html",
    level="core",
    applies=dtypes_function_for_part("Stream"),
    capabilities=("streams", "events"),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Wait for delayed work by each wait method, by a copy to the host and by a waiting stream."""
    api = device_api.device_api(target)
    x = device_zeros(target)
    # Run each method twice, because on a busy machine the work may already be done when the method is called.
    for name, wait in [*api.wait_functions().items(), *api.wait_functions().items()]:

        def work(wait: Callable[[Any, Any], None] = wait) -> bool:
            stream, event = api.new_stream(), api.new_event()
            with api.use_stream(stream):
                delay_stream(api, recorder)
                x.add_(1)
                event.record(stream)
            wait(stream, event)
            return bool(event.query())

        outcome = run_and_record_error(target, recorder, name, work)
        if outcome.ok:
            fact(recorder, outcome.value, Kind.STATE, f"{name} returns before the work is done.")
    _check_copy(target, recorder, api)
    _check_waiting_stream(target, recorder, api)
    run_and_record_error(target, recorder, "waiting for the device", api.synchronize)


def _check_copy(target: Target, recorder: Recorder, api: DeviceApi) -> None:
    for value, label in (
        (0, "a copy to the host after other work"),
        (1, "a copy to the host of new values"),
    ):
        x = device_zeros(target)

        def work(x: torch.Tensor = x, value: int = value) -> torch.Tensor:
            with api.use_stream(api.new_stream()):
                delay_stream(api, recorder)
                if value:
                    x.fill_(value)
                return api.to_host(x)

        outcome = run_and_record_error(target, recorder, label, work)
        if outcome.ok:
            check_all_equal(recorder, outcome.value, value, label)


def _check_waiting_stream(target: Target, recorder: Recorder, api: DeviceApi) -> None:
    after = api.new_event()

    def synchronize_waiting_stream() -> tuple[bool, bool] | None:
        producer, consumer, event = api.new_stream(), api.new_stream(), api.new_event()

        def synchronize_in_thread() -> None:
            event.record(producer)
            consumer.wait_event(event)
            after.record(consumer)

        pending = device_api.is_delay_pending_after(api, producer, synchronize_in_thread)
        if pending is None:
            return None
        with api.use_stream(producer):
            delay_stream(api, recorder)
        synchronize_in_thread()
        done = bool(after.query())
        # Query ``after`` first: if it is done, ``event`` must be done too.
        return pending, not done or bool(event.query())

    outcome = run_and_record_error(
        target, recorder, "a stream that waits for an event", synchronize_waiting_stream
    )
    if not outcome.ok or outcome.value is None:
        return
    pending, in_order = outcome.value
    fact(recorder, pending, Kind.STATE, "the host waits for the event, but only a stream should wait.")
    fact(recorder, in_order, Kind.STATE, "a stream that waits for an event is done before the event.")
