"""The pool: processes of :mod:`tools.mutation.worker`, fed with jobs, replaced when they end or hang."""

from __future__ import annotations

import dataclasses
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Job = Mapping[str, Any]

#: Seconds in which a process must be ready, the interposer built if it has to be.
START = 900.0


@dataclasses.dataclass(frozen=True)
class Answer:
    """A worker's words on a job, or the way it ``ended`` (``crash`` or ``timeout``) and at which result."""

    words: Mapping[str, Any]
    ended: str | None = None
    at: str | None = None


class Process:
    """One worker and the thread that reads its answers."""

    def __init__(self, command: list[str], environment: Mapping[str, str], errors: Path) -> None:
        with errors.open("ab") as sink:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                env=dict(environment),
            )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def ask(self, job: Job, patience: float) -> Answer:
        """Send a job and return its answer; ``patience``: seconds from one line of the worker to the next."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except OSError:
            self.kill()
            return Answer({}, "crash")
        return self.listen(patience)

    def listen(self, patience: float) -> Answer:
        """Return the next answer that is not an announcement."""
        at: str | None = None
        while True:
            try:
                line = self._lines.get(timeout=patience)
            except queue.Empty:
                self.kill()
                return Answer({}, "timeout", at)
            if line is None:
                self.kill()  # a process whose pipe is closed still counts as alive for a moment
                return Answer({}, "crash", at)
            words = json.loads(line)
            if "at" not in words:
                return Answer(words, None, at)
            at = words["at"]

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


class Pool:
    """Workers for one target in one mode."""

    def __init__(
        self, target: str, mode: str, workers: int, folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._command = [
            *(sys.executable, "-m", "tools.mutation.worker"),
            *("--target", target, "--mode", mode, "--build", str(folder / "build")),
        ]
        self._environment = {**environment, "PYTHONHASHSEED": "0"}
        self._workers = workers
        self._errors = folder / "workers.log"
        self._first: Process | None = None

    def _start(self) -> Process:
        process = Process(self._command, self._environment, self._errors)
        answer = process.listen(START)
        if answer.ended is not None:
            process.kill()
            raise RuntimeError(f"a worker did not start ({answer.ended}); its words are in {self._errors}")
        return process

    def ask(self, job: Job, patience: float) -> Answer:
        """Put one job to a worker."""
        if self._first is None:
            self._first = self._start()
        return self._first.ask(job, patience)

    def run(
        self,
        jobs: Iterable[Job],
        patience: Callable[[Job], float],
        done: Callable[[Job, Answer], None],
    ) -> None:
        """Give every job to the next free worker; ``done`` is called by one thread at a time."""
        waiting = iter(jobs)
        lock = threading.Lock()
        failures: list[BaseException] = []

        def serve(process: Process | None) -> None:
            try:
                while not failures:
                    with lock:
                        job = next(waiting, None)
                    if job is None:
                        break
                    if process is None or not process.alive:
                        process = self._start()
                    answer = process.ask(job, patience(job))
                    with lock:
                        done(job, answer)
            except BaseException as error:
                failures.append(error)
            finally:
                if process is not None:
                    process.kill()

        first, self._first = self._first or self._start(), None
        threads = [
            threading.Thread(target=serve, args=(first if index == 0 else None,))
            for index in range(self._workers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def close(self) -> None:
        """End what is left."""
        if self._first is not None:
            self._first.kill()
