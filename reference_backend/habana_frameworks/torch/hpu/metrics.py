"""Counters of device events: compilations, fallbacks, cache lookups, memory.

Each kind of metric has one global metric, which counts from the import on (`metric_global`). A program can
also create metrics that count during a block (`metric_localcontext`). Metrics count telemetry events
(`utils.event_dispatcher`), which are rare, so they do not slow down ordinary operators. `metric_files` writes
metrics to files.

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
    """Return the global metric with this name; if the name is unknown, warn and return None.

    A global metric counts from the import on. Names are ``graph_compilation``, ``cpu_fallback``,
    ``memory_defragmentation``, ``device_memory`` and, with ``PT_HPU_ENABLE_CACHE_METRICS=1`` at import,
    ``recipe_cache``.
    """
    if name not in _globals:
        hint = " recipe_cache needs PT_HPU_ENABLE_CACHE_METRICS=1." if name == RecipeCache.metric_name else ""
        warnings.warn(
            f"{name!r} is not a metric. Use one of {', '.join(_KINDS)}.{hint}", RuntimeWarning, stacklevel=2
        )
    return _globals.get(name)


@contextlib.contextmanager
def metric_localcontext(name: str) -> Iterator[Metric]:
    """Context manager that yields a new metric, which counts events during the block only.

    Raises:
        MetricNotFound: no metric has this name.
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
        file_name: path of the file, used as it is (without a rank).
        format: ``MetricDumpFormat.json`` (an array of records) or ``MetricDumpFormat.text``.

    Raises:
        InvalidMetricDumpFileFormat: `format` is not one of these formats.
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


def _start_global_metrics() -> None:
    for metric in _globals.values():
        metric.start()
    if os.environ.get("PT_HPU_METRICS_FILE") or os.environ.get("HABANA_PT_METRICS_FILE"):
        from .metric_files import start_dumper_from_environment

        start_dumper_from_environment(list(_globals.values()))


_start_global_metrics()
