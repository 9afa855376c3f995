"""Check that each thread has its own current stream."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

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


def call_in_thread(call: Callable[[], Any]) -> Any:
    """Return the result of a call in a new thread, or raise its exception in the calling thread."""
    box: dict[str, Any] = {}

    def store_result_or_error() -> None:
        try:
            box["value"] = call()
        except Exception as error:
            box["error"] = error

    thread = threading.Thread(target=store_result_or_error)
    thread.start()
    thread.join()
    if "error" in box:
        raise box["error"]
    return box["value"]


@register(
    "thread_stream",
    subject_kind="device",
    statement=(
        "The current stream belongs to one thread: a new thread starts on the default stream, and setting "
        "its stream does not change other threads."
    ),
    documentation="accelerator/stream.html",
    level="full",
    applies=dtypes_function_for_part("Thread"),
    capabilities=("streams",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Work on one stream in this thread and on another stream in a new thread."""
    api = device_api.device_api(target)
    default = api.current_stream()
    x, y = device_zeros(target), device_zeros(target)

    def use_streams_in_two_threads() -> tuple[Any, Any]:
        own_stream, other_stream = api.new_stream(), api.new_stream()

        def use_stream_in_new_thread() -> Any:
            first_current = api.current_stream()
            with api.use_stream(other_stream):
                x.fill_(3)
            other_stream.synchronize()
            return first_current

        with api.use_stream(own_stream):
            first_stream = call_in_thread(use_stream_in_new_thread)
            y.fill_(4)
            current = api.current_stream()
        own_stream.synchronize()
        return first_stream, current == own_stream

    outcome = run_and_record_error(target, recorder, "a stream in another thread", use_streams_in_two_threads)
    if not outcome.ok:
        return
    first_stream, unchanged = outcome.value
    fact(
        recorder,
        first_stream == default,
        Kind.STATE,
        f"a new thread starts on {first_stream}, expected {default}.",
    )
    fact(
        recorder,
        unchanged,
        Kind.STATE,
        "the current stream of another thread has become this thread's current stream.",
    )
    check_all_equal(recorder, x, 3, "the tensor that the other thread wrote")
    check_all_equal(recorder, y, 4, "the tensor that this thread wrote")
