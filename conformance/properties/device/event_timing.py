"""Events measure time."""

from __future__ import annotations

import time

from conformance.device import api as device_api
from conformance.framework.calls import attempt
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import about, do, slow, zeros
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Seconds of work before each event after the first.
WORK = 0.01
#: Milliseconds that the work before two events may take at most, as long as the host has not waited longer.
MOST = 2000.0
#: Milliseconds by which three measured intervals may fail to add up: a clock may tick once a microsecond.
RESOLUTION = 0.01


@register(
    "event_timing",
    subject_kind="device",
    statement=(
        "elapsed_time counts milliseconds, is not negative and adds up; it raises for events that were "
        "not recorded or keep no time."
    ),
    documentation="generated/torch.Event.html",
    level="full",
    applies=about("Event"),
    capabilities=("events", "event_timing"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x = zeros(target)

    def work() -> list[float]:
        events = [api.event(timing=True) for _ in range(3)]
        stream = api.current()
        for event in events:
            event.record(stream)
            x.add_(1)
            slow(api, recorder, WORK)
        api.synchronize()
        times = [float(events[a].elapsed_time(events[b])) for a, b in ((0, 1), (1, 2), (0, 2))]
        try:
            return [*times, float(events[2].elapsed_time(events[0]))]
        except RuntimeError:
            return [*times, -times[2]]  # documentation speaks of an end after the start alone

    started = time.perf_counter()
    outcome = do(target, recorder, "measuring time", work)
    waited = (time.perf_counter() - started) * 1000
    if outcome.ok:
        first, second, both, back = outcome.value
        least = 1000 * WORK if "delay" in target.hooks else 0.0
        message = f"elapsed_time gives {both} ms for two pieces of work of {1000 * WORK:g} ms each"
        fact(recorder, both >= least, Kind.VALUE, f"{message}, which is too little.")
        fact(recorder, both <= max(waited, MOST), Kind.VALUE, f"{message}; the host waited for {waited} ms.")
        good = min(first, second, both) >= 0
        fact(recorder, good, Kind.VALUE, f"an event after another is {min(first, second, both)} ms later.")
        text = f"{first} ms and {second} ms add up to {both} ms."
        fact(recorder, abs(first + second - both) <= RESOLUTION + 1e-5 * both, Kind.VALUE, text)
        message = f"the time from the last event back to the first is {back} ms, expected {-both} ms."
        fact(recorder, abs(back + both) <= RESOLUTION + 1e-5 * both, Kind.VALUE, message)
    recorded, fresh, timeless = api.event(timing=True), api.event(timing=True), api.event()
    recorded.record(api.current())
    timeless.record(api.current())
    api.synchronize()
    for event, what in ((fresh, "was not recorded"), (timeless, "keeps no time")):
        error = attempt(lambda event=event: recorded.elapsed_time(event)).error  # type: ignore[misc]
        shown = "no error" if error is None else type(error).__name__
        message = f"elapsed_time to an event that {what} gives {shown}; RuntimeError or ValueError is due."
        fact(recorder, isinstance(error, (RuntimeError, ValueError)), Kind.ERROR_TYPE, message)
