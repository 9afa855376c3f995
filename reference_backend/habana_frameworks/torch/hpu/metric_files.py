"""Write metrics to a file while a process runs.

``PT_HPU_METRICS_FILE`` (or ``HABANA_PT_METRICS_FILE``) is the path of the file, and
``PT_HPU_METRICS_FILE_FORMAT`` is json or text. If ``RANK`` or ``OMPI_COMM_WORLD_RANK`` is set, ``-rank{N}``
is inserted before the last extension. If the file already exists, a number is inserted too. The file is
created when the device is acquired. ``PT_HPU_METRICS_DUMP_TRIGGERS`` is a comma-separated list of the
occasions on which metrics are written:

    process_exit   all metrics at the end of the process (default)
    mark_step      all metrics at each end of a step
    metric_change  one metric, after each event that changed this metric
    user           all metrics at each `EventId.CUSTOM_EVENT`
"""

from __future__ import annotations

import datetime
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.events import EventDispatcher, EventId, EventParams

from .metric_kinds import InvalidMetricDumpFileFormat, InvalidMetricDumpTrigger, Metric, MetricDumpFormat

_TRIGGERS = ("process_exit", "mark_step", "metric_change", "user")


class MetricFile:
    """Writer of metric records to an open text file: as one JSON array, or as paragraphs of text."""

    def __init__(self, stream: TextIO, form: MetricDumpFormat) -> None:
        self._stream = stream
        self._form = form
        self._records = 0

    def write(self, metric: Metric, trigger: str) -> None:
        """Append a record with the current counters of a metric.

        Args:
            metric: the metric.
            trigger: the occasion of the record, such as ``mark_step``.
        """
        stats = dict(metric.values())
        moment = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
        if self._form is MetricDumpFormat.json:
            record = {
                "metric_name": metric.name(),
                "triggered_by": trigger,
                "generated_on": moment,
                "statistics": stats,
            }
            self._stream.write(",\n" if self._records else "[\n")
            self._stream.write(json.dumps(record))
        else:
            self._stream.write(f"Metric name:\t{metric.name()}\nTriggered by:\t{trigger}\n")
            self._stream.write(f"Generated on:\t{moment}\nStatistics:\n")
            self._stream.writelines(f"\t{key}:\t{value}\n" for key, value in stats.items())
            self._stream.write("\n")
        self._records += 1
        self._stream.flush()

    def close(self) -> None:
        """Write the end of the JSON array, and flush the stream without closing it."""
        if self._form is MetricDumpFormat.json:
            self._stream.write("\n]\n" if self._records else "[]\n")
        self._stream.flush()


class MetricDumper:
    """Writer that appends metrics to a file on the configured occasions, until the process ends."""

    def __init__(
        self, metrics: Sequence[Metric], path: Path, form: MetricDumpFormat, triggers: Sequence[str]
    ) -> None:
        self._metrics = metrics
        self._path = path
        self._form = form
        self._triggers = triggers
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Sequence[Metric], str]] = deque()
        self._stream: TextIO | None = None
        self._file: MetricFile | None = None
        self._process = os.getpid()

    def start(self) -> None:
        """Subscribe to the events that trigger records, and open the file when the device is acquired."""
        dispatcher = EventDispatcher.instance()
        dispatcher.subscribe(EventId.DEVICE_ACQUIRED, lambda timestamp, params: self._open())
        if "mark_step" in self._triggers:
            dispatcher.subscribe(EventId.MARK_STEP, self._listener_for_all_metrics("mark_step"))
        if "user" in self._triggers:
            dispatcher.subscribe(EventId.CUSTOM_EVENT, self._listener_for_all_metrics("user"))
        if "metric_change" in self._triggers:
            for metric in self._metrics:
                metric.on_metric_change(lambda changed: self._write([changed], "metric_change"))
        dispatcher.subscribe(EventId.PROCESS_EXIT, lambda timestamp, params: self._finish())
        if _C.is_initialized():
            self._open()

    def _open(self) -> None:
        if self._file is None and os.getpid() == self._process:
            self._stream = _open_numbered(self._path)
            self._file = MetricFile(self._stream, self._form)

    def _listener_for_all_metrics(self, trigger: str) -> Callable[[int, EventParams], None]:
        return lambda timestamp, params: self._write(self._metrics, trigger)

    def _write(self, metrics: Sequence[Metric], trigger: str) -> None:
        # Python may deliver an event between any two bytecodes, even within this function. The call that
        # holds the lock also writes the records of events that arrive during its run.
        self._waiting.append((metrics, trigger))
        while self._waiting and self._lock.acquire(blocking=False):
            try:
                self._write_queued_records()
            finally:
                self._lock.release()

    def _write_queued_records(self) -> None:
        while self._waiting:
            metrics, trigger = self._waiting.popleft()
            # A forked child inherits the parent's open file and must not write to it.
            if self._file is not None and os.getpid() == self._process:
                for metric in metrics:
                    self._file.write(metric, trigger)

    def _finish(self) -> None:
        if "process_exit" in self._triggers:
            self._write(self._metrics, "process_exit")
        if self._file is not None and self._stream is not None and os.getpid() == self._process:
            self._file.close()
            self._stream.close()
            self._file = None


def parse_format(text: str) -> MetricDumpFormat:
    """Return the file format with the name ``text``.

    Raises:
        InvalidMetricDumpFileFormat: the format does not exist.
    """
    try:
        return MetricDumpFormat(text.strip().lower())
    except ValueError:
        raise InvalidMetricDumpFileFormat(
            f"{text!r} is not a format of metric files. Use json or text."
        ) from None


def parse_triggers(text: str) -> tuple[str, ...]:
    """Return the triggers of a comma-separated list as a tuple.

    Raises:
        InvalidMetricDumpTrigger: a trigger is unknown.
    """
    triggers = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    for trigger in triggers:
        if trigger not in _TRIGGERS:
            raise InvalidMetricDumpTrigger(
                f"{trigger!r} in PT_HPU_METRICS_DUMP_TRIGGERS={text!r} is not a trigger. Use "
                f"{', '.join(_TRIGGERS)}, separated by commas."
            )
    return triggers


def add_rank_to_path(path: Path) -> Path:
    """Return the path with ``-rank{N}`` before its last extension if the environment defines a rank."""
    rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK")
    return path if not rank else path.with_name(f"{path.stem}-rank{rank}{path.suffix}")


def start_dumper_from_environment(metrics: Sequence[Metric]) -> None:
    """Start a `MetricDumper` that the environment configures; the variable with the path must be set.

    Raises:
        InvalidMetricDumpFileFormat: the format is unknown.
        InvalidMetricDumpTrigger: a trigger is unknown.
    """
    name = os.environ.get("PT_HPU_METRICS_FILE") or os.environ["HABANA_PT_METRICS_FILE"]
    form = parse_format(os.environ.get("PT_HPU_METRICS_FILE_FORMAT") or "json")
    triggers = parse_triggers(os.environ.get("PT_HPU_METRICS_DUMP_TRIGGERS") or "process_exit")
    MetricDumper(metrics, add_rank_to_path(Path(name)), form, triggers).start()


def _open_numbered(path: Path) -> TextIO:
    """Create and open a new file. If the path exists, insert the first unused number before its extension."""
    candidate, number = path, 0
    while True:
        try:
            return open(candidate, "x")
        except FileExistsError:
            number += 1
            candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
