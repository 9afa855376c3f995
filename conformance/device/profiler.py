"""Record profiler traces (``torch.profiler``) and the memory history of a target's device."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from conformance import torch_testing_internals
from conformance.model.profiler_trace import DeviceActivity, Operator, ProfilerTrace
from conformance.target.target import Target

_ACTIVITIES = {"cuda": "CUDA", "xpu": "XPU", "mtia": "MTIA", "hpu": "HPU"}


def profile_work(target: Target, work: Callable[[], object]) -> ProfilerTrace:
    """Run ``work``, wait for the device, and return the profiler trace of the work and the wait.

    Errors of ``work`` propagate.

    The events are read from the profiler's collector, because torch's Python list of events omits operators
    that call an operator with the same name, and devices that torch does not list.

    Raises:
        AttributeError: torch has no profiler activity for the device.
        RuntimeError, AssertionError: torch refuses to profile the device.
    """
    kind = torch.device(target.device).type
    activities = [ProfilerActivity.CPU, getattr(ProfilerActivity, _ACTIVITIES.get(kind, "PrivateUse1"))]
    with profile(activities=activities, profile_memory=True) as profiler:
        started = time.perf_counter()
        work()
        target.synchronize()
        elapsed = (time.perf_counter() - started) * 1e6
    rows, operators, memory = [], [], 0
    events, begin = torch_testing_internals.collected_events(profiler)
    for event in events:
        times = (event.start_ns() - begin) / 1000, (event.end_ns() - begin) / 1000
        on_host = torch_testing_internals.is_host_event(event)
        if event.name() == "[memory]":
            memory += 0 if on_host else event.nbytes()
        elif on_host and torch_testing_internals.is_torch_event(event):
            operators.append(Operator(event.correlation_id(), event.name(), event.start_thread_id(), *times))
        elif not on_host:
            link = event.linked_correlation_id()
            rows.append(DeviceActivity(event.name(), event.device_resource_id(), *times, link))
    return ProfilerTrace(rows, operators, memory, elapsed, _exported_trace(profiler))


def _exported_trace(profiler: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text())


class MemoryHistory:
    """Records the memory history of a device by ``_record_memory_history`` and ``_snapshot`` of its module,
    as ``torch.cuda.memory`` does.

    Raises:
        AttributeError: the module does not have these functions.
    """

    def __init__(self, target: Target) -> None:
        module: ModuleType = getattr(torch, torch.device(target.device).type).memory
        self._record = module._record_memory_history
        self._snapshot = module._snapshot

    def start(self) -> None:
        """Start recording all events, with Python stacks."""
        self._record("all", context="all", stacks="python", max_entries=100_000)

    def stop(self) -> None:
        """Stop recording."""
        self._record(None)

    def snapshot(self) -> dict[str, Any]:
        """Return the recorded data in the form of torch's memory viewer: segments, and the events of each
        device.
        """
        history: dict[str, Any] = self._snapshot()
        return history
