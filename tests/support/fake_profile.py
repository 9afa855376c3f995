"""A fake device on the CPU whose profiler traces and memory history look like those of a real device, and
variants of the fake device with one fault each.

Each operator of the CPU's profiler trace that calls no other operator becomes a device row, in call order. If
a stream queues a call, the row shows the time when the call runs, and not when it is issued. A queued call is
recognised by its inner call of ``detach``.
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


class ProfilingDeviceApi(fake_device.FakeDeviceApi):
    """The API of a correct fake device with a profiler and a memory history. Subclasses add one
    fault each.
    """

    def profile_work(self, work: Callable[[], object]) -> ProfilerTrace:
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as profiler:
            before = self.allocated_bytes()
            work()
            self.synchronize()
            change = self.allocated_bytes() - before
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
        rows = [row for row in self.device_rows(operators) if row]
        elapsed = max((operator.end for operator in operators), default=0.0)
        trace = {"traceEvents": [self.trace_event(row) for row in rows]}
        return self.change_trace(ProfilerTrace(rows, operators, change, elapsed, trace))

    def change_trace(self, recorded: ProfilerTrace) -> ProfilerTrace:
        return recorded

    def trace_event(self, row: DeviceActivity) -> dict[str, Any]:
        return {"ph": "X", "name": row.name, "ts": row.start, "dur": row.end - row.start, "pid": 0, "tid": 0}

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
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

    # The memory history contains the allocations of `empty`, rounded up to GRANULE bytes.
    def __init__(self, target: Any) -> None:
        super().__init__(target)
        self.live: dict[int, int] = {}
        self.events: list[dict[str, Any]] | None = None

    def allocated_bytes(self) -> int:
        return sum(self.live.values())

    def allocate_elements(self, size: int) -> torch.Tensor:
        tensor = super().allocate_elements(size)
        address, count = tensor.data_ptr(), -(-tensor.nbytes // GRANULE) * GRANULE
        self.live[address] = count
        self.record_memory_event("alloc", address, count)
        weakref.finalize(tensor, self._free, address, count)
        return tensor

    def _free(self, address: int, count: int) -> None:
        self.live.pop(address, None)
        self.record_memory_event("free_completed", address, count)

    def record_memory_event(self, action: str, address: int, size: int) -> None:
        if self.events is not None:
            frame, names = sys._getframe(1), []
            while frame is not None:
                names.append({"name": frame.f_code.co_name})
                frame = frame.f_back
            self.events.append({"action": action, "addr": address, "size": size, "frames": names})

    def memory_history(self) -> Any:
        return MemoryHistory(self)


class MemoryHistory:
    """The memory history of the fake device. Each segment is a live block followed by a free block."""

    def __init__(self, api: ProfilingDeviceApi) -> None:
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


class NoDeviceRows(ProfilingDeviceApi):
    """A device whose profiler traces contain no device rows."""

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return []


class RowsWithoutOperators(ProfilingDeviceApi):
    """A device whose rows in a profiler trace are linked to no operators."""

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, operator=0) for row in super().device_rows(operators)]


class RowsLinkedToNextOperator(ProfilingDeviceApi):
    """A device whose rows in a profiler trace are linked to the wrong operator: the next one."""

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, operator=row.operator + 1) for row in super().device_rows(operators)]


class OnlyFirstCallOfOperator(ProfilingDeviceApi):
    """A device whose profiler traces contain only the first of several calls of an operator."""

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        rows = super().device_rows(operators)
        return [
            row
            for row, before in zip(rows, [None, *rows], strict=False)
            if not before or before.name != row.name
        ]


class OverlappingRows(ProfilingDeviceApi):
    """A device whose profiler traces contain events of one stream that overlap in time."""

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [
            dataclasses.replace(row, end=row.end + 5000 + 100 * i)
            for i, row in enumerate(super().device_rows(operators))
        ]


class AllRowsOnOneStream(ProfilingDeviceApi):
    """A device whose profiler traces show the work of all streams on one stream."""

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [dataclasses.replace(row, stream=1) for row in super().device_rows(operators)]


class WaitingStreamRunsTooEarly(ProfilingDeviceApi):
    """A device whose profiler traces show the work of a waiting stream before the work that it waits for."""

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [
            dataclasses.replace(row, start=row.start - 1e6, end=row.end - 1e6) if row.stream == 2 else row
            for row in super().device_rows(operators)
        ]


class StartAndEndExchanged(ProfilingDeviceApi):
    """A device whose rows in a profiler trace have start and end exchanged."""

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [
            dataclasses.replace(row, start=row.end, end=row.start) for row in super().device_rows(operators)
        ]


class DifferentClockOrigin(ProfilingDeviceApi):
    """A device whose times in profiler traces have a different origin than the host's."""

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        return [
            dataclasses.replace(row, start=row.start + 1e7, end=row.end + 1e7)
            for row in super().device_rows(operators)
        ]


class DurationsTooLong(ProfilingDeviceApi):
    """A device whose durations in profiler traces are 1000 times too long. Rows do not overlap."""

    def device_rows(self, operators: list[Operator]) -> list[DeviceActivity]:
        clock, rows = 0.0, []
        for row in super().device_rows(operators):
            length = 1000 * (row.end - row.start)
            rows.append(dataclasses.replace(row, start=clock, end=clock + length))
            clock += length
        return rows


class FreesNotCounted(ProfilingDeviceApi):
    """A device whose profiler traces count a block as allocated after it was freed."""

    def profile_work(self, work: Callable[[], object]) -> ProfilerTrace:
        recorded = super().profile_work(work)
        return dataclasses.replace(recorded, memory=recorded.memory + GRANULE)


class EmptyTraceFile(ProfilingDeviceApi):
    """A device whose exported trace file contains no events."""

    def change_trace(self, recorded: ProfilerTrace) -> ProfilerTrace:
        return dataclasses.replace(recorded, trace={"traceEvents": []})


class NegativeDurations(ProfilingDeviceApi):
    """A device whose exported trace file contains events with negative durations."""

    def trace_event(self, row: DeviceActivity) -> dict[str, Any]:
        return super().trace_event(row) | {"dur": -1.0}


class TraceWithoutDevice(ProfilingDeviceApi):
    """A device whose exported trace file contains only events of the host."""

    def change_trace(self, recorded: ProfilerTrace) -> ProfilerTrace:
        host = {"ph": "X", "name": "aten::mm", "ts": 0, "dur": 1}
        return dataclasses.replace(recorded, trace={"traceEvents": [host]})


class KeepsRowsOfEarlierTraces(ProfilingDeviceApi):
    """A device whose profiler traces also contain the rows of earlier traces."""

    def __init__(self, target: Any) -> None:
        super().__init__(target)
        self.before: list[ProfilerTrace] = []

    def change_trace(self, recorded: ProfilerTrace) -> ProfilerTrace:
        self.before.append(recorded)
        return dataclasses.replace(
            recorded,
            rows=list(itertools.chain.from_iterable(trace.rows for trace in self.before)),
            operators=list(itertools.chain.from_iterable(trace.operators for trace in self.before)),
        )


class ReplacesErrors(ProfilingDeviceApi):
    """A device whose profiler replaces an error of the profiled code by its own error."""

    def profile_work(self, work: Callable[[], object]) -> ProfilerTrace:
        try:
            return super().profile_work(work)
        except ZeroDivisionError:
            raise RuntimeError("the profiler has failed") from None


class StopsAfterFork(ProfilingDeviceApi):
    """A device whose profiler traces contain only the first row if the profiled code forked a process."""

    def profile_work(self, work: Callable[[], object]) -> ProfilerTrace:
        before, forked = os.fork, []

        def fork() -> int:
            forked.append(True)
            return before()

        os.fork = fork
        try:
            recorded = super().profile_work(work)
        finally:
            os.fork = before
        return dataclasses.replace(recorded, rows=recorded.rows[:1]) if forked else recorded


class EventsWithoutFrames(ProfilingDeviceApi):
    """A device whose memory history contains no stack frames."""

    def record_memory_event(self, action: str, address: int, size: int) -> None:
        super().record_memory_event(action, address, size)
        if self.events:
            self.events[-1]["frames"] = []


class HistoryWithoutFrees(ProfilingDeviceApi):
    """A device whose memory history contains allocations but no frees."""

    def record_memory_event(self, action: str, address: int, size: int) -> None:
        if action == "alloc":
            super().record_memory_event(action, address, size)


class SizesInElements(ProfilingDeviceApi):
    """A device whose memory history counts elements instead of bytes."""

    def record_memory_event(self, action: str, address: int, size: int) -> None:
        super().record_memory_event(action, address, size // 8)


class NoFreeBlocks(ProfilingDeviceApi):
    """A device whose memory snapshots omit the free blocks of segments."""

    def memory_history(self) -> Any:
        class HistoryWithoutFreeBlocks(MemoryHistory):
            def snapshot(self) -> dict[str, Any]:
                full_snapshot = super().snapshot()
                for segment in full_snapshot["segments"]:
                    segment["blocks"] = segment["blocks"][:1]
                return full_snapshot

        return HistoryWithoutFreeBlocks(self)


class AllBlocksInUse(ProfilingDeviceApi):
    """A device whose memory snapshots show every block as in use."""

    def memory_history(self) -> Any:
        class HistoryWithAllBlocksInUse(MemoryHistory):
            def snapshot(self) -> dict[str, Any]:
                full_snapshot = super().snapshot()
                for segment in full_snapshot["segments"]:
                    for block in segment["blocks"]:
                        block["state"] = "active_allocated"
                return full_snapshot

        return HistoryWithAllBlocksInUse(self)
