"""The classes of metrics, their errors and their file formats.

A metric counts telemetry events of the device (`habana_frameworks.torch.internal.events`). The functions of
the module `metrics` create metrics.
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
    """Error: no metric has the requested name."""


class InvalidMetricDumpFileFormat(Exception):
    """Error: ``PT_HPU_METRICS_FILE_FORMAT`` or the argument `format` is not a supported format."""


class InvalidMetricDumpTrigger(Exception):
    """Error: ``PT_HPU_METRICS_DUMP_TRIGGERS`` contains an unknown trigger."""


class MetricDumpFormat(enum.Enum):
    """File formats in which metrics are written."""

    json = "json"
    text = "text"


class Metric:
    """Base class of metrics: a set of counters of device events that occur between `start` and `stop`."""

    metric_name: ClassVar[str]
    events: ClassVar[tuple[EventId, ...]] = ()

    def __init__(self) -> None:
        self._handles: list[int] = []
        self._observers: list[Callable[[Metric], None]] = []
        self.clear()

    def name(self) -> str:
        """Return the name of the metric."""
        return self.metric_name

    def stats(self) -> Stats:
        """Return the counters as a list of (key, value), after waiting until all events are delivered."""
        EventDispatcher.instance().flush()
        return self.values()

    def reset(self) -> None:
        """Set all counters to zero."""
        EventDispatcher.instance().flush()
        self.clear()

    def values(self) -> Stats:
        """Return the counters as a list of (key, value), without waiting for undelivered events."""
        raise NotImplementedError

    def clear(self) -> None:
        """Set the counters to zero without waiting for undelivered events."""
        raise NotImplementedError

    def start(self) -> None:
        """Start counting events, or continue after `stop`. Does nothing if the metric is already counting."""
        if self._handles:
            return
        dispatcher = EventDispatcher.instance()
        self._handles = [dispatcher.subscribe(event, self._listener(event)) for event in self.events]

    def stop(self) -> None:
        """Stop counting events; the counters keep their values."""
        handles, self._handles = self._handles, []
        for handle in handles:
            EventDispatcher.instance().unsubscribe(handle)

    def on_metric_change(self, callback: Callable[[Metric], None]) -> None:
        """Register a function that is called with this metric after each event that changed a counter."""
        self._observers.append(callback)

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Add one event to the counters. Subclasses do so in one atomic call, such as ``list.append``."""
        raise NotImplementedError

    def _listener(self, event: EventId) -> Callable[[int, EventParams], None]:
        def listen(timestamp: int, params: EventParams) -> None:
            self.count(event, dict(params))
            for observer in self._observers:
                observer(self)

        return listen


class GraphCompilation(Metric):
    """Metric of compiled recipes, times in µs. ``PT_HPU_METRICS_GC_DETAILS`` adds one entry per recipe."""

    metric_name = "graph_compilation"
    events = (EventId.GRAPH_COMPILATION,)

    def clear(self) -> None:
        """Remove all compilations."""
        self._durations: list[tuple[str, int]] = []

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Add the compilation that the event describes, with its recipe and its duration in µs."""
        self._durations.append((params.get("recipe", ""), int(float(params.get("duration", 0)))))

    def values(self) -> Stats:
        """Return the number, total time and average time of compilations."""
        number, total = len(self._durations), sum(duration for _, duration in self._durations)
        stats: Stats = [
            ("TotalNumber", number),
            ("TotalTime", total),
            ("AvgTime", total / number if number else 0),
        ]
        if environment.read_variable("PT_HPU_METRICS_GC_DETAILS", "bool", False):
            stats.append(("Recipes", [{"Recipe": name, "Time": time} for name, time in self._durations]))
        return stats


class CpuFallback(Metric):
    """Metric of operators that fell back to the CPU, with copies from and to the device."""

    metric_name = "cpu_fallback"
    events = (EventId.CPU_FALLBACK,)

    def clear(self) -> None:
        """Set the numbers of fallbacks to zero."""
        self._operators: Counter[str] = Counter()

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Count the fallback of the operator that the event describes."""
        self._operators.update((params.get("op_name", ""),))

    def values(self) -> Stats:
        """Return the number of fallbacks, in total and by operator."""
        return [("TotalNumber", sum(self._operators.values())), ("FallbackOps", dict(self._operators))]


class MemoryDefragmentation(Metric):
    """Metric of attempts to make free device memory contiguous; times in ms."""

    metric_name = "memory_defragmentation"
    events = (EventId.MEMORY_DEFRAGMENTATION,)

    def clear(self) -> None:
        """Remove all attempts."""
        self._attempts: list[tuple[bool, float]] = []

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Add the attempt that the event describes, with its success and its duration in ms."""
        success = params.get("success", "").lower() in ("1", "true")
        self._attempts.append((success, float(params.get("milliseconds", 0))))

    def values(self) -> Stats:
        """Return the number of attempts and of successes, and the average and longest time."""
        times = [time for _, time in self._attempts]
        return [
            ("TotalNumber", len(times)),
            ("TotalSuccessful", sum(success for success, _ in self._attempts)),
            ("AvgTime", sum(times) / len(times) if times else 0),
            ("MaxTime", max(times, default=0)),
        ]


class RecipeCache(Metric):
    """Metric of recipe cache lookups, by recipe id. It exists only with PT_HPU_ENABLE_CACHE_METRICS=1."""

    metric_name = "recipe_cache"
    events = (EventId.CACHE_HIT, EventId.CACHE_MISS)

    def clear(self) -> None:
        """Remove all lookups."""
        self._lookups = {event: Counter[str]() for event in self.events}

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Count the lookup that the event describes: a hit or a miss of a recipe."""
        self._lookups[event].update((params.get("recipe_id", ""),))

    def values(self) -> Stats:
        """Return the numbers of hits and misses, in total and by recipe."""
        hit, miss = self._lookups[EventId.CACHE_HIT], self._lookups[EventId.CACHE_MISS]
        return [
            ("TotalHit", sum(hit.values())),
            ("RecipeHit", dict(hit)),
            ("TotalMiss", sum(miss.values())),
            ("RecipeMiss", dict(miss)),
        ]


class DeviceMemory(Metric):
    """Metric of device memory: current figures of `torch.hpu.memory_stats`, or 0 before the first device use.

    The documentation of the public bridge lists this metric, but not its keys.
    """

    metric_name = "device_memory"
    _keys = ("Limit", "InUse", "MaxInUse", "NumAllocs", "NumFrees", "ActiveAllocs", "MaxAllocSize")

    def clear(self) -> None:
        """Do nothing. Functions such as `torch.hpu.reset_peak_memory_stats` reset these figures."""

    def values(self) -> Stats:
        """Return seven statistics of the device memory allocator; sizes are in bytes."""
        values = _C.memory_stats() if _C.is_initialized() else {}
        return [(key, values.get(key, 0)) for key in self._keys]
