"""Record the trace of a whole process (``HABANA_PROFILE``), or of the part that the program selects.

``HABANA_PROFILE=1`` records the device from the import of this package to the end of the process. The trace
is written to ``default_profiling[_rankR]_PID.json`` in Chrome's format, with a copy whose suffix is
``.hltv``. With ``profile_api`` or ``profile_api_light``, the program starts and stops the recording
(`utils.profiler`). With ``0``, the device reports no rows, not even to `torch.profiler`.

``HABANA_PROF_CONFIG`` is the path of a JSON file. The format of the real file is not public, so the simulator
defines the fields: ``folder`` and ``name`` of the trace files, and ``rows``, the maximum number of recorded
rows. Other fields are ignored.
"""

from __future__ import annotations

import atexit
import json
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from habana_frameworks.torch import _C

from .traces import DeviceRecording, write_trace_or_warn

_PROGRAM_CONTROLLED = ("profile_api", "profile_api_light")
#: The other accepted values: ``0`` records nothing, and the others record the whole process.
_OTHER_MODES = ("0", "1", "profile_api_with_nics")


@dataclass(frozen=True)
class TraceFiles:
    """Folder and name of this process's trace files."""

    folder: Path
    name: str

    def paths(self) -> list[Path]:
        """Return the paths of the JSON and hltv files, which contain the process id and, if set, the rank."""
        rank = os.environ.get("RANK", "")
        stem = f"{self.name}_rank{rank}_{os.getpid()}" if rank else f"{self.name}_{os.getpid()}"
        return [self.folder / f"{stem}.json", self.folder / f"{stem}.hltv"]


class ProcessRecorder:
    """The trace of this process. At most one recording runs at a time."""

    def __init__(self) -> None:
        self._recording: DeviceRecording | None = None
        self._files: TraceFiles | None = None

    def configured_files(self) -> TraceFiles:
        """Return the files that ``HABANA_PROF_CONFIG`` configures. Only the first call reads the variable."""
        self._files = self._files or _read_config()
        return self._files

    @property
    def is_running(self) -> bool:
        """Return whether this process is recording."""
        return self._recording is not None and self._recording.is_started_by_this_process

    def start(self) -> None:
        """Start recording. If this process is already recording, do nothing."""
        self.configured_files()
        if not self.is_running:
            self._recording = DeviceRecording()

    def stop(self, at_exit: bool = False) -> list[Path]:
        """Stop recording and write the files. Do nothing in a forked child, or if no recording runs.

        Args:
            at_exit: wait a limited time only, because work may never finish (a collective that other ranks do
                not join).

        Returns:
            The written files.
        """
        recording, self._recording = self._recording, None
        if recording is None or not recording.is_started_by_this_process:
            return []
        if at_exit:
            _wait_for_pending_work()
        else:
            _C.finish_work()
        return write_trace_or_warn(recording.finish(), self.configured_files().paths())


RECORDER = ProcessRecorder()


def profile_mode() -> str:
    """Return the value of ``HABANA_PROFILE``, or ``profile_api_light`` if the variable is not set."""
    return os.environ.get("HABANA_PROFILE", "") or "profile_api_light"


def start_if_requested() -> None:
    """Set ``HABANA_PROFILE`` to `profile_mode`. Start recording if this mode records the whole process."""
    os.environ["HABANA_PROFILE"] = profile_mode()
    if profile_mode() not in (*_OTHER_MODES, *_PROGRAM_CONTROLLED):
        warnings.warn(
            f"HABANA_PROFILE={profile_mode()!r} is not a mode, so the whole process is recorded, as for 1. "
            f"Use one of {', '.join((*_OTHER_MODES, *_PROGRAM_CONTROLLED))}.",
            RuntimeWarning,
            stacklevel=2,
        )
    if profile_mode() not in ("0", *_PROGRAM_CONTROLLED):
        RECORDER.start()
        atexit.register(RECORDER.stop, at_exit=True)


def _wait_for_pending_work(seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while _C.engine_counters()["pending"] > 0 and time.monotonic() < end:
        time.sleep(0.01)


def _read_config() -> TraceFiles:
    path = os.environ.get("HABANA_PROF_CONFIG", "")
    fields: dict[str, object] = {}
    if path:
        try:
            document = json.loads(Path(path).read_text())
            if not isinstance(document, dict):
                raise ValueError("the file does not contain a JSON object")
            fields = document
            if "rows" in fields:
                _C.set_trace_limit(fields["rows"])
        except (OSError, ValueError, TypeError) as error:
            warnings.warn(
                f"HABANA_PROF_CONFIG={path!r} was ignored ({error}). Use a JSON file with the fields folder, "
                "name and rows.",
                RuntimeWarning,
                stacklevel=2,
            )
    return TraceFiles(Path(str(fields.get("folder", "."))), str(fields.get("name", "default_profiling")))
