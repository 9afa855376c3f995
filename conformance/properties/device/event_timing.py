"""Check that the times between events are correct."""

from __future__ import annotations

import time

from conformance.device import api as device_api
from conformance.framework.calls import attempt
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import (
    delay_stream,
    device_zeros,
    dtypes_function_for_part,
    run_and_record_error,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Seconds of work that are queued before the second and before the third event.
WORK = 0.01
#: The largest allowed time in milliseconds for both pieces of work, unless the host waited for longer.
LONGEST = 2000.0
#: The largest allowed difference in milliseconds between an interval and the sum of its two parts, for clocks
#: with a resolution of about a microsecond.
RESOLUTION = 0.01


@register(
    "event_timing",
    subject_kind="device",
    statement=(
        "elapsed_time returns milliseconds, is not negative, and adds up over consecutive intervals. It "
        "raises for an event that was not recorded or was created without timing."
    ),
    documentation="generated/torch.Event.html",
    level="full",
    applies=dtypes_function_for_part("Event"),
    capabilities=("events", "event_timing"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Measure two pieces of work with three events, then query events that cannot be measured."""
    api = device_api.device_api(target)
    x = device_zeros(target)

    def measure_event_times() -> list[float]:
        events = [api.new_event(timing=True) for _ in range(3)]
        stream = api.current_stream()
        for event in events:
            event.record(stream)
            x.add_(1)
            delay_stream(api, recorder, WORK)
        api.synchronize()
        times = [float(events[a].elapsed_time(events[b])) for a, b in ((0, 1), (1, 2), (0, 2))]
        try:
            return [*times, float(events[2].elapsed_time(events[0]))]
        except RuntimeError:
            return [
                *times,
                -times[2],
            ]  # PyTorch documents elapsed_time only for an end event after the start event

    started = time.perf_counter()
    outcome = run_and_record_error(target, recorder, "measuring time", measure_event_times)
    waited = (time.perf_counter() - started) * 1000
    if outcome.ok:
        first, second, total, back = outcome.value
        shortest = 1000 * WORK if "delay" in target.hooks else 0.0
        message = f"elapsed_time gives {total} ms for two pieces of work of {1000 * WORK:g} ms each"
        fact(recorder, total >= shortest, Kind.VALUE, f"{message}, which is too short.")
        fact(
            recorder,
            total <= max(waited, LONGEST),
            Kind.VALUE,
            f"{message}, but the host waited for only {waited} ms.",
        )
        not_negative = min(first, second, total) >= 0
        fact(
            recorder,
            not_negative,
            Kind.VALUE,
            f"elapsed_time to a later event is {min(first, second, total)} ms, expected at least 0.",
        )
        text = f"{first} ms and {second} ms add up to {total} ms."
        fact(recorder, abs(first + second - total) <= RESOLUTION + 1e-5 * total, Kind.VALUE, text)
        message = f"the time from the last event back to the first is {back} ms, expected {-total} ms."
        fact(recorder, abs(back + total) <= RESOLUTION + 1e-5 * total, Kind.VALUE, message)
    recorded, unrecorded, timeless = api.new_event(timing=True), api.new_event(timing=True), api.new_event()
    recorded.record(api.current_stream())
    timeless.record(api.current_stream())
    api.synchronize()
    for event, state in ((unrecorded, "was not recorded"), (timeless, "keeps no time")):
        error = attempt(lambda event=event: recorded.elapsed_time(event)).error  # type: ignore[misc]
        error_name = "no error" if error is None else type(error).__name__
        message = (
            f"elapsed_time to an event that {state} gives {error_name}; expected RuntimeError or ValueError."
        )
        fact(recorder, isinstance(error, (RuntimeError, ValueError)), Kind.ERROR_TYPE, message)
