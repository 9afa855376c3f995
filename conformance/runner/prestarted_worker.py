"""A worker that is started before the plan is known, so that imports and planning take place side by side."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.process_control.child import Child


class WarmWorker:
    """One process that is ready to run pytest; :meth:`run` hands it the arguments, :meth:`end` drops it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        # Its output goes to the log of the round, which has no place yet.
        self._folder = tempfile.TemporaryDirectory()
        self._log = Path(self._folder.name) / "log.txt"
        command = [sys.executable, "-m", "conformance.worker.prestart"]
        self._child: Child | None = Child.exec(command, self._environment, log=self._log, channel=True)

    def run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Child | None:
        """Give it the arguments of pytest and return its process; None if it cannot take them.

        It takes them once, and only with the environment that it was started with.
        """
        child = self._child
        if child is None or child.has_ended() or dict(environment) != self._environment:
            self.end()
            return None
        self._child = None
        child.send(json.dumps(list(arguments)).encode())
        # A test may close every file of its process, and that must not stop it.
        child.disconnect()
        return child

    def copy_log(self, log: Path) -> None:
        """Write the output of the process to the log of its round."""
        with log.open("ab") as file, self._log.open("rb") as output:
            shutil.copyfileobj(output, file)

    def end(self) -> None:
        """End the process unless a round took it."""
        child, self._child = self._child, None
        if child is not None:
            child.stop()

    def close(self) -> None:
        """End the process unless a round took it, and drop its log."""
        self.end()
        self._folder.cleanup()
