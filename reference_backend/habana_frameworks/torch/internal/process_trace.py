"""The trace of a whole process that ``HABANA_PROFILE`` asks for, and the profile that a program drives.

``HABANA_PROFILE=1``, or the name of a template, records the device from the import of the bridge to the end
of the process, into ``default_profiling[_rankR]_PID.json``, a Chrome trace, and a copy with the suffix
``.hltv``. With ``profile_api`` and ``profile_api_light`` the program starts and stops (`utils.profiler`);
``0`` switches the device's rows off, those of `torch.profiler` included (contract, 1.11).

``HABANA_PROF_CONFIG`` names a JSON file. No public document describes the fields of the real one, so these
are the simulator's own, and others are passed over: ``folder`` and ``name`` for the files, and ``rows``, the
most rows that are kept.
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

from .traces import Recording, write_or_warn

_BY_PROGRAM = ("profile_api", "profile_api_light")


@dataclass(frozen=True)
class Files:
    """The files for the traces of this process."""

    folder: Path
    name: str

    def paths(self) -> list[Path]:
        """Name the files: of this process, and of its rank if it has one."""
        rank = os.environ.get("RANK", "")
        stem = f"{self.name}_rank{rank}_{os.getpid()}" if rank else f"{self.name}_{os.getpid()}"
        return [self.folder / f"{stem}.json", self.folder / f"{stem}.hltv"]


class Profile:
    """The profile of the process: one at a time."""

    def __init__(self) -> None:
        self._recording: Recording | None = None
        self._files: Files | None = None

    def set_up(self) -> Files:
        """Read ``HABANA_PROF_CONFIG``; a file that cannot be read costs a warning."""
        self._files = self._files or _configured()
        return self._files

    @property
    def is_running(self) -> bool:
        """True while this process records."""
        return self._recording is not None and self._recording.is_own

    def start(self) -> None:
        """Start to record; if it records already, that goes on."""
        self.set_up()
        if not self.is_running:
            self._recording = Recording()

    def stop(self, at_exit: bool = False) -> list[Path]:
        """Stop, and write the files; without a start, or in a forked child, nothing happens.

        Args:
            at_exit: do not wait for work that may never end, as a collective that no rank answers.

        Returns:
            The files that were written.
        """
        recording, self._recording = self._recording, None
        if recording is None or not recording.is_own:
            return []
        if at_exit:
            _wait_a_little()
        else:
            _C.finish_work()
        return write_or_warn(recording.finish(), self.set_up().paths())


PROFILE = Profile()


def mode() -> str:
    """``HABANA_PROFILE``, or ``profile_api_light`` if it is not set."""
    return os.environ.get("HABANA_PROFILE", "") or "profile_api_light"


def start_if_requested() -> None:
    """Set ``HABANA_PROFILE`` if it is not set, and record the whole process if it asks for that."""
    os.environ["HABANA_PROFILE"] = mode()
    if mode() not in ("0", *_BY_PROGRAM):
        PROFILE.start()
        atexit.register(PROFILE.stop, at_exit=True)


def _wait_a_little(seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while _C.engine_counters()["pending"] > 0 and time.monotonic() < end:
        time.sleep(0.01)


def _configured() -> Files:
    path = os.environ.get("HABANA_PROF_CONFIG", "")
    fields: dict[str, object] = {}
    if path:
        try:
            found = json.loads(Path(path).read_text())
            if not isinstance(found, dict):
                raise ValueError("it holds no object")
            fields = found
            if "rows" in fields:
                _C.set_trace_limit(fields["rows"])
        except (OSError, ValueError, TypeError) as error:
            warnings.warn(
                f"HABANA_PROF_CONFIG={path!r} is not used ({error}): name a JSON file with folder, name "
                "and rows",
                RuntimeWarning,
                stacklevel=2,
            )
    return Files(Path(str(fields.get("folder", "."))), str(fields.get("name", "default_profiling")))
