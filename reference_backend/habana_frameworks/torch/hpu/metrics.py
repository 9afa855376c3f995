"""Counters of device events: compilations, fallbacks, cache lookups, memory.

Each metric exists once per process, started at import (`metric_global`), and any number of times for parts of
a program (`metric_localcontext`). Metrics collect events (`utils.event_dispatcher`), so they add no cost to
operators on the fast path. `metric_files` writes them to files.

Names, keys and variables are from the public bridge's Metric APIs.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator

from habana_frameworks.torch.internal.events import EventDispatcher
from habana_frameworks.torch.internal.settings import bridge_config

from .metric_kinds import (
    CpuFallback,
    DeviceMemory,
    GraphCompilation,
    InvalidMetricDumpFileFormat,
    InvalidMetricDumpTrigger,
    MemoryDefragmentation,
    Metric,
    MetricDumpFormat,
    MetricNotFound,
    RecipeCache,
)

__all__ = [
    "InvalidMetricDumpFileFormat",
    "InvalidMetricDumpTrigger",
    "Metric",
    "MetricDumpFormat",
    "MetricNotFound",
    "metric_global",
    "metric_localcontext",
    "metrics_dump",
]


def _metric_kinds() -> dict[str, type[Metric]]:
    kinds: list[type[Metric]] = [GraphCompilation, CpuFallback, MemoryDefragmentation, DeviceMemory]
    if bridge_config.value_of("PT_HPU_ENABLE_CACHE_METRICS"):
        kinds.append(RecipeCache)
    return {kind.metric_name: kind for kind in kinds}


_KINDS = _metric_kinds()
_globals = {name: kind() for name, kind in _KINDS.items()}


def metric_global(name: str) -> Metric | None:
    """Return the metric that has collected since the process started, or None with a warning if the name is
    unknown.

    Names: ``graph_compilation``, ``cpu_fallback``, ``memory_defragmentation``, ``device_memory`` and, with
    ``PT_HPU_ENABLE_CACHE_METRICS=1`` at import, ``recipe_cache``.
    """
    if name not in _globals:
        hint = " recipe_cache needs PT_HPU_ENABLE_CACHE_METRICS=1." if name == RecipeCache.metric_name else ""
        warnings.warn(
            f"{name!r} is not a metric. Use one of {', '.join(_KINDS)}.{hint}", RuntimeWarning, stacklevel=2
        )
    return _globals.get(name)


@contextlib.contextmanager
def metric_localcontext(name: str) -> Iterator[Metric]:
    """Context manager that returns a new metric, which collects inside the block only.

    Raises:
        MetricNotFound: the metric does not exist.
    """
    if name not in _KINDS:
        raise MetricNotFound(f"{name!r} is not a metric. Use one of {', '.join(_KINDS)}.")
    metric = _KINDS[name]()
    metric.start()
    try:
        yield metric
    finally:
        metric.stop()


def metrics_dump(file_name: str | os.PathLike[str], format: MetricDumpFormat = MetricDumpFormat.json) -> None:
    """Write all global metrics to a file. An existing file is replaced.

    Args:
        file_name: path; no rank is added.
        format: ``MetricDumpFormat.json`` (an array of records) or ``MetricDumpFormat.text``.

    Raises:
        InvalidMetricDumpFileFormat: `format` is neither of these.
        OSError: the file cannot be written.
    """
    from .metric_files import MetricFile, parse_format

    form = parse_format(format.value if isinstance(format, MetricDumpFormat) else str(format))
    EventDispatcher.instance().flush()
    with open(file_name, "w") as stream:
        file = MetricFile(stream, form)
        for metric in _globals.values():
            file.write(metric, "user")
        file.close()


def _start() -> None:
    for metric in _globals.values():
        metric.start()
    if os.environ.get("PT_HPU_METRICS_FILE") or os.environ.get("HABANA_PT_METRICS_FILE"):
        from .metric_files import start_dumper_from_environment

        start_dumper_from_environment(list(_globals.values()))


_start()
