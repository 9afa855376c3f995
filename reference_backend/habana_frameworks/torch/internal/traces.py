"""Record the work of the device and write it as Chrome trace files."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from habana_frameworks.torch import _C

_PROCESS = 0  # process id in the device's rows; rows of the host program have the program's own process id


@dataclass(frozen=True)
class TraceRow:
    """One piece of work that the device ran. Times are nanoseconds since 1970."""

    kind: str  # "kernel", "recipe", "copy", "collective", "event" or "wait"
    name: str
    stream: int
    start: int
    end: int
    correlation: int  # number of the operator on the host in torch's profiler, or 0
    bytes: int | None  # bytes read and written, or None if unknown


@dataclass(frozen=True)
class Trace:
    """The rows of a recording, ordered by end time, and the number of rows dropped beyond the limit."""

    rows: list[TraceRow]
    dropped: int

    def events(self) -> list[dict[str, Any]]:
        """Return the events of the Chrome trace format: names of the streams, then the rows."""
        named = [("process_name", 0, {"name": "hpu"}), ("process_labels", 0, {"labels": "HPU 0"})]
        for stream in sorted({row.stream for row in self.rows}):
            named.append(
                ("thread_name", stream, {"name": f"stream {stream}" if stream else "default stream"})
            )
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": name, "pid": _PROCESS, "tid": stream, "args": arguments}
            for name, stream, arguments in named
        ]
        events.extend(
            {
                "ph": "X",
                "cat": "hpu_op",
                "name": row.name,
                "pid": _PROCESS,
                "tid": row.stream,
                "ts": row.start / 1000,
                "dur": (row.end - row.start) / 1000,
                "args": {"kind": row.kind, "stream": row.stream}
                | ({"bytes": row.bytes} if row.bytes is not None else {}),
            }
            for row in self.rows
        )
        return events

    def write(self, path: Path) -> None:
        """Write the Chrome trace to `path`. Create the folder if needed, and replace an existing file.

        Raises:
            OSError: the file cannot be written.
        """
        document = {
            "schemaVersion": 1,
            "displayTimeUnit": "ms",
            "droppedRows": self.dropped,
            "traceEvents": self.events(),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            with unfinished.open("w") as file:
                json.dump(document, file)
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


class DeviceRecording:
    """A recording of the device, from construction to `finish`. In a forked child, the recording is empty."""

    def __init__(self) -> None:
        self._recording = _C.TraceRecording()
        self._process = os.getpid()

    @property
    def is_started_by_this_process(self) -> bool:
        """Return whether this process started the recording, and not the process that forked it."""
        return self._process == os.getpid()

    def finish(self) -> Trace:
        """Stop recording and return the rows of all finished work. A second call returns no rows."""
        rows, dropped = self._recording.end()
        return Trace([TraceRow(*row) for row in rows], dropped)


def write_trace_or_warn(trace: Trace, paths: Iterable[Path]) -> list[Path]:
    """Write the trace to the first path and copy the file to the other paths. Warn once on failure.

    Returns:
        The files that were written.
    """
    written: list[Path] = []
    try:
        for path in paths:
            if written:
                shutil.copyfile(written[0], path)
            else:
                trace.write(path)
            written.append(path)
    except OSError as error:
        warnings.warn(
            f"the trace of the device could not be written to {path} ({error}). Use a writable folder "
            "with free space.",
            RuntimeWarning,
            stacklevel=2,
        )
    return written
