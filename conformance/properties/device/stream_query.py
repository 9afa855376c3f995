"""Check that ``query`` reports pending work without waiting for it."""

from __future__ import annotations

from conformance.device import api as device_api
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import (
    check_all_equal,
    device_zeros,
    dtypes_function_for_part,
    run_and_record_error,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


@register(
    "stream_query",
    subject_kind="device",
    statement=(
        "query of a stream or an event returns true after it was synchronized, and false while work is "
        "pending."
    ),
    documentation="generated/torch.Stream.html",
    level="core",
    applies=dtypes_function_for_part("Stream"),
    capabilities=("streams", "events"),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Query a stream and an event after synchronization, and again while work is pending."""
    api = device_api.device_api(target)
    x = device_zeros(target)
    stream, event, unrecorded = api.new_stream(), api.new_event(), api.new_event()

    def query_before_and_after_work() -> tuple[bool, bool, bool]:
        with api.use_stream(stream):
            x.add_(1)
            event.record(stream)
        stream.synchronize()
        return stream.query(), event.query(), unrecorded.query()

    outcome = run_and_record_error(target, recorder, "querying a stream", query_before_and_after_work)
    if not outcome.ok:
        return
    of_stream, of_event, of_unrecorded = outcome.value
    fact(recorder, of_stream, Kind.STATE, "Stream.query is false after Stream.synchronize.")
    fact(recorder, of_event, Kind.STATE, "Event.query is false after its stream was synchronized.")
    fact(recorder, of_unrecorded, Kind.STATE, "Event.query is false for an event that was never recorded.")
    check_all_equal(recorder, x, 1, "the result of the synchronized work")
    query_results: list[bool] = []

    def query_while_pending() -> bool | None:
        return device_api.is_delay_pending_after(api, stream, lambda: query_results.append(stream.query()))

    query_outcome = run_and_record_error(
        target, recorder, "querying a stream while work is pending", query_while_pending
    )
    if not query_outcome.ok:
        return
    pending = query_outcome.value
    if pending is None:
        recorder.note(
            "the target does not define the hook 'delay', so query() was not checked while work was pending"
        )
        return
    fact(
        recorder,
        pending,
        Kind.STATE,
        "Event.query is true, or query waits, while work before the event is pending.",
    )
    fact(
        recorder,
        not all(query_results),
        Kind.STATE,
        "Stream.query is true while work on the stream is pending.",
    )
