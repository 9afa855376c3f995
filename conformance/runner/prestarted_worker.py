"""A worker process that is started before the plan is known, so that it imports modules during planning."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.process_control.child import Child


class PrestartedWorker:
    """A process that imports modules and then waits for the arguments of one pytest run."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        # The worker starts before its round, so the path of the round's log is not known yet. The worker
        # therefore writes to a temporary log, and copy_log() appends it to the log of the round.
        self._folder = tempfile.TemporaryDirectory()
        self._log = Path(self._folder.name) / "log.txt"
        command = [sys.executable, "-m", "conformance.worker.prestart"]
        self._child: Child | None = Child.exec(command, self._environment, log=self._log, channel=True)

    def start_pytest(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Child | None:
        """Start pytest in the prestarted process and return the process, or None if that is impossible.

        The process runs pytest only once, and only if it was started with the same ``environment``.
        """
        child = self._child
        if child is None or child.has_ended() or dict(environment) != self._environment:
            self.stop_if_unused()
            return None
        self._child = None
        child.send(json.dumps(list(arguments)).encode())
        # A test may close every file descriptor of its process. Closing the channel must not stop the worker.
        child.disconnect()
        return child

    def copy_log(self, log: Path) -> None:
        """Append the output of the process to the log of its round."""
        with log.open("ab") as file, self._log.open("rb") as output:
            shutil.copyfileobj(output, file)

    def stop_if_unused(self) -> None:
        """Stop the process unless pytest was started in it."""
        child, self._child = self._child, None
        if child is not None:
            child.stop()

    def stop_and_delete_log(self) -> None:
        """Stop the process unless pytest was started in it, and delete its log."""
        self.stop_if_unused()
        self._folder.cleanup()
