"""A worker that is started before the plan is known, so that imports and planning take place side by side."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO


class WarmWorker:
    """One process that is ready to run pytest; :meth:`run` hands it the arguments, :meth:`end` drops it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        # Its output goes to the log of the round, which has no place yet.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-m", "conformance.worker.prestart"],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )

    def run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
        """Give it the arguments of pytest and return its process; None if it cannot take them.

        It takes them once, and only with the environment that it was started with.
        """
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return None
        if process.poll() is None and dict(environment) == self._environment:
            with contextlib.suppress(OSError):
                process.stdin.write(json.dumps(list(arguments)).encode() + b"\n")
                process.stdin.close()
                return process
        self._process = process
        self.end()
        return None

    def copy_log(self, log: Path) -> None:
        """Write what the process has said to the log of its round."""
        self._log.seek(0)
        with log.open("ab") as file:
            _copy(self._log, file)

    def end(self) -> None:
        """End the process unless a round took it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()

    def close(self) -> None:
        """End the process unless a round took it, and drop its log."""
        self.end()
        self._log.close()


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    while block := source.read(1 << 16):
        target.write(block)
