"""Check that the host waits for the device only if PyTorch documents a wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.device import api as device_api
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import (
    SIZE,
    device_zeros,
    dtypes_function_for_part,
    run_and_record_error,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


@register(
    "no_host_wait",
    subject_kind="device",
    statement=(
        "Kernel launches, copies on the device and non-blocking copies return while earlier work is pending."
    ),
    documentation="notes/cuda.html",
    level="full",
    applies=dtypes_function_for_part("Stream", delay=True),
    capabilities=("streams", "events", "asynchronous"),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Make each call on a delayed stream and check that the call returns while the delay is pending."""
    api = device_api.device_api(target)
    x, y = device_zeros(target), device_zeros(target)
    calls: dict[str, Callable[[], Any]] = {
        "launching a kernel": lambda: x.add_(1),
        "a copy on the device": lambda: y.copy_(x),
        "recording an event": lambda: api.new_event().record(api.current_stream()),
    }
    if target.capable("non_blocking") and target.capable("pinned_memory"):
        pinned = api.copy_to_pinned_memory(torch.zeros(SIZE, dtype=torch.int64))
        calls["a non-blocking copy to the device"] = lambda: x.copy_(pinned, non_blocking=True)
        calls["a non-blocking copy to pinned memory"] = lambda: pinned.copy_(x, non_blocking=True)
    stream = api.new_stream()
    for label, work in calls.items():
        # Run each call once before the measurement, because the host may wait while the device compiles the
        # first call of an operator.
        def returns_while_pending(work: Callable[[], Any] = work) -> bool | None:
            with api.use_stream(stream):
                work()
            api.synchronize()
            return device_api.is_delay_pending_after(api, stream, work)

        outcome = run_and_record_error(target, recorder, label, returns_while_pending)
        if not outcome.ok:
            continue
        if outcome.value is None:
            recorder.note(f"not checked whether {label} waits: the host was slower than every delay")
            continue
        fact(
            recorder,
            outcome.value,
            Kind.STATE,
            f"{label} returns only when earlier work on the stream is done.",
        )
