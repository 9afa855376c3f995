"""A profile, reduced to what properties ask of it. Times are microseconds since its beginning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DeviceActivity:
    """One piece of work of the device."""

    name: str
    stream: int  # the profiler's number for it
    start: float
    end: float
    operator: int  # id of the operator that issued it, or 0


@dataclass(frozen=True)
class Operator:
    """One call on the host."""

    id: int
    name: str
    thread: int
    start: float
    end: float


@dataclass(frozen=True)
class ProfilerTrace:
    """A profile of some work and of the wait for it."""

    rows: list[DeviceActivity]
    operators: list[Operator]
    memory: int  # bytes of the device that were allocated and not freed, by the events in the profile
    elapsed: float  # microseconds of the work and the wait, by the host's clock
    trace: Any  # the exported Chrome trace, as JSON
