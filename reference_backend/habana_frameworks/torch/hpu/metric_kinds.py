"""Kinds of metrics, their errors, and the file formats in which they are written.

A metric collects events of the device (`habana_frameworks.torch.internal.events`). The functions of
`metrics` create metrics.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.events import EventDispatcher, EventId, EventParams
from habana_frameworks.torch.internal.settings import environment

Stats = list[tuple[str, Any]]


class MetricNotFound(Exception):
    """There is no metric of that name."""


class InvalidMetricDumpFileFormat(Exception):
    """``PT_HPU_METRICS_FILE_FORMAT`` or the argument `format` is not a file format."""


class InvalidMetricDumpTrigger(Exception):
    """``PT_HPU_METRICS_DUMP_TRIGGERS`` contains an unknown trigger."""


class MetricDumpFormat(enum.Enum):
    """File formats that `metrics_dump` writes."""

    json = "json"
    text = "text"


class Metric:
    """A set of counters that collects events between `start` and `stop`."""

    metric_name: ClassVar[str]
    events: ClassVar[tuple[EventId, ...]] = ()

    def __init__(self) -> None:
        self._handles: list[int] = []
        self._observers: list[Callable[[Metric], None]] = []
        self.clear()

    def name(self) -> str:
        """Name of the metric."""
        return self.metric_name

    def stats(self) -> Stats:
        """The counters as a list of (key, value), with all events up to now."""
        EventDispatcher.instance().flush()
        return self.values()

    def reset(self) -> None:
        """Set all counters to zero."""
        EventDispatcher.instance().flush()
        self.clear()

    def values(self) -> Stats:
        """The counters as a list of (key, value), with the events that were delivered so far."""
        raise NotImplementedError

    def clear(self) -> None:
        """Set the counters to zero without waiting for undelivered events."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin, or continue, to collect. Does nothing if the metric collects already."""
        if self._handles:
            return
        dispatcher = EventDispatcher.instance()
        self._handles = [dispatcher.subscribe(event, self._listener(event)) for event in self.events]

    def stop(self) -> None:
        """Stop collecting; the counters stay."""
        handles, self._handles = self._handles, []
        for handle in handles:
            EventDispatcher.instance().unsubscribe(handle)

    def on_metric_change(self, callback: Callable[[Metric], None]) -> None:
        """Call ``callback(metric)`` after each event that changed a counter."""
        self._observers.append(callback)

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Count one event, by a single call that no other event can interrupt."""
        raise NotImplementedError

    def _listener(self, event: EventId) -> Callable[[int, EventParams], None]:
        def listen(timestamp: int, params: EventParams) -> None:
            self.count(event, dict(params))
            for observer in self._observers:
                observer(self)

        return listen


class GraphCompilation(Metric):
    """Recipes that were compiled; times in µs. ``PT_HPU_METRICS_GC_DETAILS`` adds one entry per recipe."""

    metric_name = "graph_compilation"
    events = (EventId.GRAPH_COMPILATION,)

    def clear(self) -> None:
        """Drop all compilations."""
        self._durations: list[tuple[str, int]] = []

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Add a compilation: recipe, and duration in µs."""
        self._durations.append((params.get("recipe", ""), int(float(params.get("duration", 0)))))

    def values(self) -> Stats:
        """Number, total time and average time of compilations."""
        number, total = len(self._durations), sum(duration for _, duration in self._durations)
        stats: Stats = [
            ("TotalNumber", number),
            ("TotalTime", total),
            ("AvgTime", total / number if number else 0),
        ]
        if environment.read("PT_HPU_METRICS_GC_DETAILS", "bool", False):
            stats.append(("Recipes", [{"Recipe": name, "Time": time} for name, time in self._durations]))
        return stats


class CpuFallback(Metric):
    """Operators that ran on the CPU with copies out and back."""

    metric_name = "cpu_fallback"
    events = (EventId.CPU_FALLBACK,)

    def clear(self) -> None:
        """Drop all fallbacks."""
        self._operators: Counter[str] = Counter()

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Add a fallback of an operator."""
        self._operators.update((params.get("op_name", ""),))

    def values(self) -> Stats:
        """Number of fallbacks, in total and by operator."""
        return [("TotalNumber", sum(self._operators.values())), ("FallbackOps", dict(self._operators))]


class MemoryDefragmentation(Metric):
    """Attempts to make free memory contiguous; times in ms."""

    metric_name = "memory_defragmentation"
    events = (EventId.MEMORY_DEFRAGMENTATION,)

    def clear(self) -> None:
        """Drop all attempts."""
        self._attempts: list[tuple[bool, float]] = []

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Add an attempt: success, and duration in ms."""
        success = params.get("success", "").lower() in ("1", "true")
        self._attempts.append((success, float(params.get("milliseconds", 0))))

    def values(self) -> Stats:
        """Number of attempts and of successes, average and longest time."""
        times = [time for _, time in self._attempts]
        return [
            ("TotalNumber", len(times)),
            ("TotalSuccessful", sum(success for success, _ in self._attempts)),
            ("AvgTime", sum(times) / len(times) if times else 0),
            ("MaxTime", max(times, default=0)),
        ]


class RecipeCache(Metric):
    """Lookups in the recipe cache, with the ids of the recipes. Registered by PT_HPU_ENABLE_CACHE_METRICS."""

    metric_name = "recipe_cache"
    events = (EventId.CACHE_HIT, EventId.CACHE_MISS)

    def clear(self) -> None:
        """Drop all lookups."""
        self._lookups = {event: Counter[str]() for event in self.events}

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Add a lookup of a recipe: a hit or a miss."""
        self._lookups[event].update((params.get("recipe_id", ""),))

    def values(self) -> Stats:
        """Numbers of hits and misses, in total and by recipe."""
        hit, miss = self._lookups[EventId.CACHE_HIT], self._lookups[EventId.CACHE_MISS]
        return [
            ("TotalHit", sum(hit.values())),
            ("RecipeHit", dict(hit)),
            ("TotalMiss", sum(miss.values())),
            ("RecipeMiss", dict(miss)),
        ]


class DeviceMemory(Metric):
    """The figures of `torch.hpu.memory_stats`, all zero before the device is acquired; read, not counted.

    The contract names this metric but not its keys.
    """

    metric_name = "device_memory"
    _keys = ("Limit", "InUse", "MaxInUse", "NumAllocs", "NumFrees", "ActiveAllocs", "MaxAllocSize")

    def clear(self) -> None:
        """Do nothing: `torch.hpu.reset_peak_memory_stats` and the like reset the figures for all readers."""

    def values(self) -> Stats:
        """Seven statistics of the allocator, sizes in bytes."""
        values = _C.memory_stats() if _C.is_initialized() else {}
        return [(key, values.get(key, 0)) for key in self._keys]
