"""A fake device with profiles and a memory history, computed next to CPU kernels, and faulty variants of it.

Each operator of the CPU profile that calls no other operator becomes a row of the device, in call order.
Deferred work of a stream calls ``detach`` when it is issued, and has its row when it runs.
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
    """A device whose profiles and memory history are as documented."""

    def profile(self, work: Callable[[], object]) -> ProfilerTrace:
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as profiler:
            before = self.allocated()
            work()
            self.synchronize()
            change = self.allocated() - before
        events, begin = torch_testing_internals.collected_events(profiler)
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

    def spoiled(self, recorded: ProfilerTrace) -> ProfilerTrace:
        return recorded

    def trace_event(self, row: DeviceActivity) -> dict[str, Any]:
        return {"ph": "X", "name": row.name, "ts": row.start, "dur": row.end - row.start, "pid": 0, "tid": 0}

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        activities, clock = [], 0.0
        aten = [operator for operator in operators if operator.name.startswith("aten::")]
        for operator in aten:
            inner = [
                inner_operator
                for inner_operator in aten
                if inner_operator is not operator
                and operator.start <= inner_operator.start
                and inner_operator.end <= operator.end
            ]
            put_off = any(inner_operator.name == "aten::detach" for inner_operator in inner)
            calls = any(not inner_operator.name.startswith(_NO_KERNEL) for inner_operator in inner)
            if not (put_off or calls or operator.name.startswith(_NO_KERNEL)):
                start = max(operator.start, clock)
                clock = start + (operator.end - operator.start) / 2
                stream = 2 if "mul" in operator.name else 1
                activities.append(
                    DeviceActivity(f"kernel of {operator.name}", stream, start, clock, operator.id)
                )
        return activities

    # Memory: allocations of `empty` are counted, in granules.
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
    """The memory history of the fake. Its segments have a free block between each two live blocks."""

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
    """A profile without rows of the device."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return []


class Unlinked(Api):
    """Rows without a linked operator."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, operator=0) for row in super()._rows(operators)]


class LinkedToTheNext(Api):
    """Rows that are linked to the next operator."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, operator=row.operator + 1) for row in super()._rows(operators)]


class FirstOnly(Api):
    """A profile without the rows of repeated calls."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        rows = super()._rows(operators)
        return [
            row
            for row, before in zip(rows, [None, *rows], strict=False)
            if not before or before.name != row.name
        ]


class Overlapping(Api):
    """Rows of a stream that overlap."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [
            dataclasses.replace(row, end=row.end + 5000 + 100 * i)
            for i, row in enumerate(super()._rows(operators))
        ]


class OneStream(Api):
    """Rows of all streams on one stream."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, stream=1) for row in super()._rows(operators)]


class EarlyWaiters(Api):
    """Work that waits for another stream and is shown before that work."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [
            dataclasses.replace(row, start=row.start - 1e6, end=row.end - 1e6) if row.stream == 2 else row
            for row in super()._rows(operators)
        ]


class Backwards(Api):
    """Rows with start and end exchanged."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, start=row.end, end=row.start) for row in super()._rows(operators)]


class OtherClock(Api):
    """Times with a different origin."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [
            dataclasses.replace(row, start=row.start + 1e7, end=row.end + 1e7)
            for row in super()._rows(operators)
        ]


class Milliseconds(Api):
    """Durations that are 1000 times too long, without overlap."""

    def _rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        clock, rows = 0.0, []
        for row in super()._rows(operators):
            length = 1000 * (row.end - row.start)
            rows.append(dataclasses.replace(row, start=clock, end=clock + length))
            clock += length
        return rows


class LostFrees(Api):
    """A profile that shows allocations and no frees."""

    def profile(self, work: Callable[[], object]) -> ProfilerTrace:
        recorded = super().profile(work)
        return dataclasses.replace(recorded, memory=recorded.memory + GRANULE)


class NoTrace(Api):
    """An exported file without events."""

    def spoiled(self, recorded: ProfilerTrace) -> ProfilerTrace:
        return dataclasses.replace(recorded, trace={"traceEvents": []})


class NegativeDurations(Api):
    """An exported file whose events have negative durations."""

    def trace_event(self, row: DeviceActivity) -> dict[str, Any]:
        return super().trace_event(row) | {"dur": -1.0}


class TraceWithoutDevice(Api):
    """An exported file with events of the host only."""

    def spoiled(self, recorded: ProfilerTrace) -> ProfilerTrace:
        host = {"ph": "X", "name": "aten::mm", "ts": 0, "dur": 1}
        return dataclasses.replace(recorded, trace={"traceEvents": [host]})


class NeverStops(Api):
    """A profile that also contains the rows of earlier profiles."""

    def __init__(self, target: Any) -> None:
        super().__init__(target)
        self.before: list[ProfilerTrace] = []

    def spoiled(self, recorded: ProfilerTrace) -> ProfilerTrace:
        self.before.append(recorded)
        return dataclasses.replace(
            recorded,
            rows=list(itertools.chain.from_iterable(trace.rows for trace in self.before)),
            operators=list(itertools.chain.from_iterable(trace.operators for trace in self.before)),
        )


class OwnError(Api):
    """A profile that replaces the error raised inside it."""

    def profile(self, work: Callable[[], object]) -> ProfilerTrace:
        try:
            return super().profile(work)
        except ZeroDivisionError:
            raise RuntimeError("the profiler has failed") from None


class DeadAfterFork(Api):
    """A profile without its later rows if a child process was forked in it."""

    def profile(self, work: Callable[[], object]) -> ProfilerTrace:
        before, forked = os.fork, []

        def fork() -> int:
            forked.append(True)
            return before()

        os.fork = fork
        try:
            recorded = super().profile(work)
        finally:
            os.fork = before
        return dataclasses.replace(recorded, rows=recorded.rows[:1]) if forked else recorded


class NoFrames(Api):
    """Allocations without a stack."""

    def add(self, action: str, address: int, size: int) -> None:
        super().add(action, address, size)
        if self.events:
            self.events[-1]["frames"] = []


class NoFrees(Api):
    """A history without frees."""

    def add(self, action: str, address: int, size: int) -> None:
        if action == "alloc":
            super().add(action, address, size)


class SmallSizes(Api):
    """Sizes that count elements and not bytes."""

    def add(self, action: str, address: int, size: int) -> None:
        super().add(action, address, size // 8)


class Gaps(Api):
    """Segments without their free blocks."""

    def memory_history(self) -> Any:
        class Gappy(History):
            def snapshot(self) -> dict[str, Any]:
                full_snapshot = super().snapshot()
                for segment in full_snapshot["segments"]:
                    segment["blocks"] = segment["blocks"][:1]
                return full_snapshot

        return Gappy(self)


class Everything(Api):
    """Segments whose blocks are all shown as in use."""

    def memory_history(self) -> Any:
        class Busy(History):
            def snapshot(self) -> dict[str, Any]:
                full_snapshot = super().snapshot()
                for segment in full_snapshot["segments"]:
                    for block in segment["blocks"]:
                        block["state"] = "active_allocated"
                return full_snapshot

        return Busy(self)
