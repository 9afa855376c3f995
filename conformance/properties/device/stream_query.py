"""query says whether work is pending, without waiting for it."""

from __future__ import annotations

from conformance.device import api as device_api
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import about, do, holds, zeros
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


@register(
    "stream_query",
    subject_kind="device",
    statement=(
        "query is true of a stream and an event when they have been waited for, and false while "
        "work is pending."
    ),
    documentation="generated/torch.Stream.html",
    level="core",
    applies=about("Stream"),
    capabilities=("streams", "events"),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x = zeros(target)
    stream, event, fresh = api.stream(), api.event(), api.event()

    def work() -> tuple[bool, bool, bool]:
        with api.on(stream):
            x.add_(1)
            event.record(stream)
        stream.synchronize()
        return stream.query(), event.query(), fresh.query()

    outcome = do(target, recorder, "asking a stream", work)
    if not outcome.ok:
        return
    of_stream, of_event, of_fresh = outcome.value
    fact(recorder, of_stream, Kind.STATE, "Stream.query is false after Stream.synchronize.")
    fact(recorder, of_event, Kind.STATE, "Event.query is false after its stream has been waited for.")
    fact(recorder, of_fresh, Kind.STATE, "Event.query is false of an event that was never recorded.")
    holds(recorder, x, 1, "the work that was waited for")
    answers: list[bool] = []

    def ask() -> bool | None:
        return device_api.pending_after(api, stream, lambda: answers.append(stream.query()))

    asked = do(target, recorder, "asking a stream while work is pending", ask)
    if not asked.ok:
        return
    pending = asked.value
    if pending is None:
        recorder.note("the target has no hook delay: query was not seen while work is pending")
        return
    fact(
        recorder,
        pending,
        Kind.STATE,
        "Event.query is true, or query waits, while work before the event is pending.",
    )
    fact(recorder, not all(answers), Kind.STATE, "Stream.query is true while work on the stream is pending.")
