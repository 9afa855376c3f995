"""The data of a profiler trace that properties use. Times are microseconds since the start of the trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DeviceActivity:
    """One activity of the device, such as a kernel or a copy."""

    name: str
    stream: int  # the number that the profiler gives to the stream
    start: float
    end: float
    operator: int  # id of the operator that issued the activity, or 0


@dataclass(frozen=True)
class Operator:
    """One operator call on the host."""

    id: int
    name: str
    thread: int
    start: float
    end: float


@dataclass(frozen=True)
class ProfilerTrace:
    """The profiler trace of a block of calls, including the wait for the device."""

    rows: list[DeviceActivity]
    operators: list[Operator]
    memory: int  # device bytes that were allocated and not freed, according to the trace's events
    elapsed: float  # microseconds of the calls and of the wait for the device, measured on the host
    trace: Any  # the exported Chrome trace, as JSON
