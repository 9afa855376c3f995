"""Each thread has a current stream of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from conformance.device import api as device_api
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import about, do, holds, zeros
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def in_thread(call: Callable[[], Any]) -> Any:
    """Return the value of a call in a new thread; an error there is raised here."""
    box: dict[str, Any] = {}

    def run() -> None:
        try:
            box["value"] = call()
        except Exception as error:
            box["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if "error" in box:
        raise box["error"]
    return box["value"]


@register(
    "thread_stream",
    subject_kind="device",
    statement=(
        "The current stream is each thread's own: a new thread starts on the default one and moves "
        "no other's."
    ),
    documentation="accelerator.html",
    level="full",
    applies=about("Thread"),
    capabilities=("streams",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    default = api.current()
    x, y = zeros(target), zeros(target)

    def work() -> tuple[Any, Any]:
        here, there = api.stream(), api.stream()

        def elsewhere() -> Any:
            first = api.current()
            with api.on(there):
                x.fill_(3)
            there.synchronize()
            return first

        with api.on(here):
            seen = in_thread(elsewhere)
            y.fill_(4)
            current = api.current()
        here.synchronize()
        return seen, current == here

    outcome = do(target, recorder, "a stream in another thread", work)
    if not outcome.ok:
        return
    seen, kept = outcome.value
    fact(recorder, seen == default, Kind.STATE, f"a new thread starts on {seen}, expected {default}.")
    fact(recorder, kept, Kind.STATE, "a stream that another thread set has become this thread's current one.")
    holds(recorder, x, 3, "what the other thread wrote")
    holds(recorder, y, 4, "what this thread wrote")
