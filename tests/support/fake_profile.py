"""A device whose profiles and whose history of memory are made here, beside CPU kernels, and faults of them.

Each operator of the CPU's profile that calls no other becomes a row of the device, in the order of the calls.
What a stream puts off calls ``detach`` when it is issued, and has its row when it runs.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from conformance import torch_testing_internals
from conformance.model.profiler_trace import DeviceActivity, Operator, ProfilerTrace
from tests.support import fake_device

_NO_KERNEL = (
    "aten::empty",
    "aten::view",
    "aten::as_strided",
    "aten::expand",
    "aten::resolve",
    "aten::to",
    "aten::detach",
)
GRANULE = 512


class Api(fake_device.Api):
    """Profiles and records as documented."""

    def profile(self, work: Callable[[], object]) -> ProfilerTrace:
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as found:
            before = self.allocated()
            work()
            self.synchronize()
            change = self.allocated() - before
        events, begin = torch_testing_internals.collected_events(found)
        operators = [
            Operator(
                event.correlation_id(),
                event.name(),
                event.start_thread_id(),
                (event.start_ns() - begin) / 1000,
                (event.end_ns() - begin) / 1000,
            )
            for event in events
            if event.name() != "[memory]"
        ]
        rows = [row for row in self._rows(operators) if row]
        elapsed = max((operator.end for operator in operators), default=0.0)
        trace = {"traceEvents": [self.trace_event(row) for row in rows]}
        return self.spoiled(ProfilerTrace(rows, operators, change, elapsed, trace))

    def spoiled(self, found: ProfilerTrace) -> ProfilerTrace:
        return found

    def trace_event(self, row: DeviceActivity) -> dict[str, Any]:
        return {"ph": "X", "name": row.name, "ts": row.start, "dur": row.end - row.start, "pid": 0, "tid": 0}

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        made, clock = [], 0.0
        aten = [one for one in operators if one.name.startswith("aten::")]
        for one in aten:
            inner = [
                other
                for other in aten
                if other is not one and one.start <= other.start and other.end <= one.end
            ]
            put_off = any(other.name == "aten::detach" for other in inner)
            calls = any(not other.name.startswith(_NO_KERNEL) for other in inner)
            if not (put_off or calls or one.name.startswith(_NO_KERNEL)):
                start = max(one.start, clock)
                clock = start + (one.end - one.start) / 2
                stream = 2 if "mul" in one.name else 1
                made.append(DeviceActivity(f"kernel of {one.name}", stream, start, clock, one.id))
        return made

    # Memory: what `empty` makes is counted, in granules.
    def __init__(self, target: Any) -> None:
        super().__init__(target)
        self.live: dict[int, int] = {}
        self.events: list[dict[str, Any]] | None = None

    def allocated(self) -> int:
        return sum(self.live.values())

    def empty(self, size: int) -> torch.Tensor:
        tensor = super().empty(size)
        address, count = tensor.data_ptr(), -(-tensor.nbytes // GRANULE) * GRANULE
        self.live[address] = count
        self.add("alloc", address, count)
        weakref.finalize(tensor, self._free, address, count)
        return tensor

    def _free(self, address: int, count: int) -> None:
        self.live.pop(address, None)
        self.add("free_completed", address, count)

    def add(self, action: str, address: int, size: int) -> None:
        if self.events is not None:
            frame, names = sys._getframe(1), []
            while frame is not None:
                names.append({"name": frame.f_code.co_name})
                frame = frame.f_back
            self.events.append({"action": action, "addr": address, "size": size, "frames": names})

    def memory_history(self) -> Any:
        return History(self)


class History:
    """The history of the fake's memory; segments show live blocks with a free one between each two."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def start(self) -> None:
        self.api.events = []

    def stop(self) -> None:
        self.api.events = None

    def snapshot(self) -> dict[str, Any]:
        segments = []
        for address, size in self.api.live.items():
            blocks = [
                {"address": address, "size": size, "state": "active_allocated"},
                {"address": address + size, "size": GRANULE, "state": "inactive"},
            ]
            segments.append({"address": address, "total_size": size + GRANULE, "blocks": blocks})
        return {"device_traces": [list(self.api.events or [])], "segments": segments}


class NoRows(Api):
    """Shows nothing of the device."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return []


class Unlinked(Api):
    """Rows have no operator."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, operator=0) for row in super()._rows(operators)]


class LinkedToTheNext(Api):
    """The link is off by one operator."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, operator=row.operator + 1) for row in super()._rows(operators)]


class FirstOnly(Api):
    """A call that is like the one before has no row."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        rows = super()._rows(operators)
        return [
            row
            for row, before in zip(rows, [None, *rows], strict=False)
            if not before or before.name != row.name
        ]


class Overlapping(Api):
    """Rows of a stream begin before the one before ends."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [
            dataclasses.replace(row, end=row.end + 5000 + 100 * i)
            for i, row in enumerate(super()._rows(operators))
        ]


class OneStream(Api):
    """Rows of all streams are on one."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, stream=1) for row in super()._rows(operators)]


class EarlyWaiters(Api):
    """Work that waits for another stream is shown before it."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [
            dataclasses.replace(row, start=row.start - 1e6, end=row.end - 1e6) if row.stream == 2 else row
            for row in super()._rows(operators)
        ]


class Backwards(Api):
    """Start and end are exchanged."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, start=row.end, end=row.start) for row in super()._rows(operators)]


class OtherClock(Api):
    """Times count from another beginning."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [
            dataclasses.replace(row, start=row.start + 1e7, end=row.end + 1e7)
            for row in super()._rows(operators)
        ]


class Milliseconds(Api):
    """Durations are a thousand times too long, one behind the other."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        clock, rows = 0.0, []
        for row in super()._rows(operators):
            length = 1000 * (row.end - row.start)
            rows.append(dataclasses.replace(row, start=clock, end=clock + length))
            clock += length
        return rows


class LostFrees(Api):
    """The profile shows what was allocated, and not what was freed."""

    def profile(self, work: Callable[[], object]) -> ProfilerTrace:
        found = super().profile(work)
        return dataclasses.replace(found, memory=found.memory + GRANULE)


class NoTrace(Api):
    """The exported file holds no events."""

    def spoiled(self, found: ProfilerTrace) -> ProfilerTrace:
        return dataclasses.replace(found, trace={"traceEvents": []})


class NegativeDurations(Api):
    """Events of the exported file have negative durations."""

    def trace_event(self, row: DeviceActivity) -> dict[str, Any]:
        return super().trace_event(row) | {"dur": -1.0}


class TraceWithoutDevice(Api):
    """The exported file has the host alone."""

    def spoiled(self, found: ProfilerTrace) -> ProfilerTrace:
        host = {"ph": "X", "name": "aten::mm", "ts": 0, "dur": 1}
        return dataclasses.replace(found, trace={"traceEvents": [host]})


class NeverStops(Api):
    """A profile has the rows of those before, too."""

    def __init__(self, target: Any) -> None:
        super().__init__(target)
        self.before: list[ProfilerTrace] = []

    def spoiled(self, found: ProfilerTrace) -> ProfilerTrace:
        self.before.append(found)
        return dataclasses.replace(
            found,
            rows=list(itertools.chain.from_iterable(one.rows for one in self.before)),
            operators=list(itertools.chain.from_iterable(one.operators for one in self.before)),
        )


class OwnError(Api):
    """An error inside of a profile becomes another."""

    def profile(self, work: Callable[[], object]) -> ProfilerTrace:
        try:
            return super().profile(work)
        except ZeroDivisionError:
            raise RuntimeError("the profiler has failed") from None


class DeadAfterFork(Api):
    """A profile in which a child was forked has lost its later rows."""

    def profile(self, work: Callable[[], object]) -> ProfilerTrace:
        before, forked = os.fork, []

        def fork() -> int:
            forked.append(True)
            return before()

        os.fork = fork
        try:
            found = super().profile(work)
        finally:
            os.fork = before
        return dataclasses.replace(found, rows=found.rows[:1]) if forked else found


class NoFrames(Api):
    """Allocations have no stack."""

    def add(self, action: str, address: int, size: int) -> None:
        super().add(action, address, size)
        if self.events:
            self.events[-1]["frames"] = []


class NoFrees(Api):
    """Frees are not recorded."""

    def add(self, action: str, address: int, size: int) -> None:
        if action == "alloc":
            super().add(action, address, size)


class SmallSizes(Api):
    """Sizes count elements."""

    def add(self, action: str, address: int, size: int) -> None:
        super().add(action, address, size // 8)


class Gaps(Api):
    """Free blocks are not shown."""

    def memory_history(self) -> Any:
        class Gappy(History):
            def snapshot(self) -> dict[str, Any]:
                found = super().snapshot()
                for segment in found["segments"]:
                    segment["blocks"] = segment["blocks"][:1]
                return found

        return Gappy(self)


class Everything(Api):
    """All blocks are shown as in use."""

    def memory_history(self) -> Any:
        class Busy(History):
            def snapshot(self) -> dict[str, Any]:
                found = super().snapshot()
                for segment in found["segments"]:
                    for block in segment["blocks"]:
                        block["state"] = "active_allocated"
                return found

        return Busy(self)
