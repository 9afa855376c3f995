"""The classes of metrics, their errors and their file formats.

A metric collects events of the device (`habana_frameworks.torch.internal.events`). The functions of `metrics`
create metrics.
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
    """The metric does not exist."""


class InvalidMetricDumpFileFormat(Exception):
    """The format in ``PT_HPU_METRICS_FILE_FORMAT`` or in the argument `format` does not exist."""


class InvalidMetricDumpTrigger(Exception):
    """``PT_HPU_METRICS_DUMP_TRIGGERS`` contains an unknown trigger."""


class MetricDumpFormat(enum.Enum):
    """File formats of `metrics_dump`."""

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
        """Return the name of the metric."""
        return self.metric_name

    def stats(self) -> Stats:
        """Return the counters as a list of (key, value), including all events until now."""
        EventDispatcher.instance().flush()
        return self.values()

    def reset(self) -> None:
        """Set all counters to zero."""
        EventDispatcher.instance().flush()
        self.clear()

    def values(self) -> Stats:
        """Return the counters as a list of (key, value), including only delivered events."""
        raise NotImplementedError

    def clear(self) -> None:
        """Set the counters to zero without waiting for undelivered events."""
        raise NotImplementedError

    def start(self) -> None:
        """Start or continue collecting. Do nothing if the metric is already collecting."""
        if self._handles:
            return
        dispatcher = EventDispatcher.instance()
        self._handles = [dispatcher.subscribe(event, self._listener(event)) for event in self.events]

    def stop(self) -> None:
        """Stop collecting; the counters keep their values."""
        handles, self._handles = self._handles, []
        for handle in handles:
            EventDispatcher.instance().unsubscribe(handle)

    def on_metric_change(self, callback: Callable[[Metric], None]) -> None:
        """Call ``callback(metric)`` after each event that changed a counter."""
        self._observers.append(callback)

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Count one event, in a single call that other events cannot interrupt."""
        raise NotImplementedError

    def _listener(self, event: EventId) -> Callable[[int, EventParams], None]:
        def listen(timestamp: int, params: EventParams) -> None:
            self.count(event, dict(params))
            for observer in self._observers:
                observer(self)

        return listen


class GraphCompilation(Metric):
    """Compiled recipes; times in µs. ``PT_HPU_METRICS_GC_DETAILS`` adds one entry per recipe."""

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
    """Operators that ran on the CPU with copies from and to the device."""

    metric_name = "cpu_fallback"
    events = (EventId.CPU_FALLBACK,)

    def clear(self) -> None:
        """Remove all fallbacks."""
        self._operators: Counter[str] = Counter()

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Add a fallback of an operator."""
        self._operators.update((params.get("op_name", ""),))

    def values(self) -> Stats:
        """Return the number of fallbacks, in total and by operator."""
        return [("TotalNumber", sum(self._operators.values())), ("FallbackOps", dict(self._operators))]


class MemoryDefragmentation(Metric):
    """Attempts to make free memory contiguous; times in ms."""

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
    """Lookups in the recipe cache by recipe id. The metric exists only with PT_HPU_ENABLE_CACHE_METRICS=1."""

    metric_name = "recipe_cache"
    events = (EventId.CACHE_HIT, EventId.CACHE_MISS)

    def clear(self) -> None:
        """Remove all lookups."""
        self._lookups = {event: Counter[str]() for event in self.events}

    def count(self, event: EventId, params: dict[str, str]) -> None:
        """Add a lookup of a recipe: a hit or a miss."""
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
    """Figures of `torch.hpu.memory_stats`, read at each call; zero before the device is acquired.

    The documentation of the public bridge lists this metric, but not its keys.
    """

    metric_name = "device_memory"
    _keys = ("Limit", "InUse", "MaxInUse", "NumAllocs", "NumFrees", "ActiveAllocs", "MaxAllocSize")

    def clear(self) -> None:
        """Do nothing, because `torch.hpu.reset_peak_memory_stats` and similar functions reset the figures."""

    def values(self) -> Stats:
        """Return seven statistics of the allocator; sizes in bytes."""
        values = _C.memory_stats() if _C.is_initialized() else {}
        return [(key, values.get(key, 0)) for key in self._keys]
