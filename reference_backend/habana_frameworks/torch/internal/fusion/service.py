"""Compile recorded graphs in subprocesses while the program runs, and cache the code on disk.

Environment variables: HPU_REFERENCE_FUSION_PROCESSES is the number of concurrent subprocesses (default 1; 0
disables fusion). HPU_REFERENCE_FUSION_CACHE is the cache folder (default: below Inductor's cache).
"""

from __future__ import annotations

import atexit
import contextlib
import getpass
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import cache_config
from .artifact import Artifact
from .description import NotFusable, digest_of, dumps

log = logging.getLogger(__name__)
WORKER = Path(__file__).with_name("worker.py")
NOT_FUSABLE = 3
LIMIT_SECONDS = 900
# Maximum number of waiting requests, so that a program that always creates new graphs does not fill memory.
LIMIT_WAITING = 256
OnReady = Callable[[Artifact], None]
OnProgram = Callable[[bool], object]


def default_cache_folder() -> Path:
    """Return the cache folder that the environment configures."""
    folder = os.environ.get("HPU_REFERENCE_FUSION_CACHE")
    if folder:
        return Path(folder)
    configured = cache_config.cache_config_from_environment().path
    if configured is not None:
        return configured
    # This repeats Inductor's rule for its cache folder. Inductor is not imported here, because the import is
    # slow.
    user = re.sub(r"[^\w.-]", "_", getpass.getuser())
    inductor = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or f"{tempfile.gettempdir()}/torchinductor_{user}"
    return Path(inductor) / "hpu_reference_fusion"


def default_process_limit() -> int:
    """Return the number of subprocesses that may compile at once. An invalid number is treated as 0."""
    try:
        return max(0, int(os.environ.get("HPU_REFERENCE_FUSION_PROCESSES", "1")))
    except ValueError:
        return 0


def cxx_compiler() -> str | None:
    """Return the path of the C++ compiler that Inductor would use, or None."""
    return shutil.which(os.environ.get("CXX", "g++").split()[0] or "g++")


@dataclass
class _CompilationJob:
    digest: str
    text: str
    on_ready: list[OnReady]
    folder: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0


@dataclass
class CompilationService:
    """A bounded number of compile subprocesses with one cache folder. Failed compilations do not raise.

    Attributes:
        processes: maximum number of subprocesses.
        folder: the cache folder.
        on_program: called for each artifact, with True if it was loaded from the disk and False if this
            process requested its compilation.
    """

    processes: int = field(default_factory=default_process_limit)
    folder: Path = field(default_factory=default_cache_folder)
    on_program: OnProgram | None = None

    def __post_init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._jobs: dict[str, _CompilationJob] = {}
        self._waiting: deque[_CompilationJob] = deque()
        self._running: list[_CompilationJob] = []
        self._finished: list[tuple[Artifact, list[OnReady]]] = []
        # Reasons of failures by digest. A failed description is not retried in this process.
        self.failures: dict[str, str] = {}
        self._enabled: bool | None = None
        self._config = cache_config.cache_config_from_environment()
        if self._config.delete:
            cache_config.empty_cache_once(self.folder)
        atexit.register(self.close)

    def is_enabled(self) -> bool:
        """Return whether anything can be compiled. If the C++ compiler is missing, warn once."""
        if self._enabled is None:
            self._enabled = self.processes > 0
            if self._enabled and cxx_compiler() is None:
                self._enabled = False
                warnings.warn(
                    "graphs of the reference device stay interpreted, because fusion needs a C++ compiler "
                    "and none was found. Set CXX, or set HPU_REFERENCE_FUSION_PROCESSES=0 to disable fusion.",
                    stacklevel=3,
                )
        # A forked child cannot use the service, because the compile processes are not its children.
        return self._enabled and os.getpid() == self._owner

    def request(self, description: dict[str, Any], on_ready: OnReady | None = None) -> str | None:
        """Request the compilation of a graph.

        Args:
            description: result of `Graph.describe()`.
            on_ready: receives the artifact during a later `poll`.

        Returns:
            The digest of the description, or None if the request is rejected.
        """
        if not self.is_enabled():
            return None
        try:
            text = dumps(description)
        except NotFusable as error:
            log.debug("a graph stays interpreted: %s", error)
            return None
        digest = digest_of(text)
        listeners = [on_ready] if on_ready is not None else []
        with self._lock:
            if digest in self.failures:
                return None
            if digest in self._jobs:
                self._jobs[digest].on_ready += listeners
                return digest
            artifact = self._load(digest)
            if artifact is not None:
                self._report_program(loaded=True)
                self._finished.append((artifact, listeners))
                return digest
            if len(self._waiting) >= LIMIT_WAITING:
                return None
            self._jobs[digest] = _CompilationJob(digest, text, listeners)
            self._waiting.append(self._jobs[digest])
            self._start()
        return digest

    def poll(self) -> list[Artifact]:
        """Call `on_ready` for each artifact finished since the last call, and return these artifacts.

        Do not wait for compilations that still run.
        """
        if not self._running and not self._finished:
            return []
        if os.getpid() != self._owner:
            return []
        with self._lock:
            for job in [job for job in self._running if self._has_ended(job)]:
                self._running.remove(job)
                del self._jobs[job.digest]
                self._publish_or_record_failure(job)
            self._start()
            finished, self._finished = self._finished, []
        for artifact, listeners in finished:
            for listener in listeners:
                try:
                    listener(artifact)
                except Exception:
                    log.warning("the listener for fused code %s failed", artifact.folder, exc_info=True)
        return [artifact for artifact, _ in finished]

    def is_idle(self) -> bool:
        """Return whether no request is running or waiting, and no artifact awaits `poll`."""
        return not (self._jobs or self._finished)

    def close(self) -> None:
        """Terminate the subprocesses and drop all requests."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            for job in self._running:
                self._kill(job)
            self._running.clear()
            self._waiting.clear()
            self._jobs.clear()

    def _load(self, digest: str) -> Artifact | None:
        with contextlib.suppress(OSError, ValueError):
            artifact = Artifact.load(self.folder / digest)
            os.utime(self.folder / digest)  # marks the artifact as recently used, for trimming
            return artifact
        return None

    def _start(self) -> None:
        while self._waiting and len(self._running) < self.processes:
            job = self._waiting.popleft()
            try:
                self._spawn(job)
                self._running.append(job)
            except OSError as error:
                del self._jobs[job.digest]
                if job.folder is not None:
                    shutil.rmtree(job.folder, ignore_errors=True)
                self._record_failure(job, f"the compile process did not start: {error}")

    def _spawn(self, job: _CompilationJob) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        job.folder = Path(tempfile.mkdtemp(prefix=f".{job.digest}-", dir=self.folder))
        source = job.folder / "description.json"
        source.write_text(job.text)
        environment = os.environ | {
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }
        with open(job.folder / "log", "wb") as output:
            # A new session, so that killing the process group also kills the C++ compiler.
            job.process = subprocess.Popen(
                [sys.executable, str(WORKER), str(source), str(job.folder)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        job.started = time.monotonic()

    def _has_ended(self, job: _CompilationJob) -> bool:
        assert job.process is not None
        if job.process.poll() is None and time.monotonic() - job.started > LIMIT_SECONDS:
            self._kill(job, keep=True)
        return job.process.poll() is not None

    @staticmethod
    def _kill(job: _CompilationJob, keep: bool = False) -> None:
        assert job.process is not None and job.folder is not None
        with contextlib.suppress(OSError):
            os.killpg(job.process.pid, signal.SIGKILL)
        job.process.wait()
        if not keep:
            shutil.rmtree(job.folder, ignore_errors=True)

    def _publish_or_record_failure(self, job: _CompilationJob) -> None:
        """Publish the artifact of a finished subprocess, or record the reason of its failure."""
        assert job.process is not None and job.folder is not None
        try:
            code = job.process.returncode
            if code != 0:
                lines = (job.folder / "log").read_text(errors="replace").strip().splitlines()
                reason = lines[-1] if lines else f"the compile process exited with code {code}"
                return self._record_failure(job, reason, expected=code == NOT_FUSABLE)
            artifact = self._publish(job.folder, job.digest)
            if artifact is None:
                return self._record_failure(job, f"{self.folder} is not writable")
            self._report_program(loaded=False)
            self._finished.append((artifact, job.on_ready))
            cache_config.trim_cache(self.folder, self._config.megabytes)
        except OSError as error:
            self._record_failure(job, str(error))
        finally:
            shutil.rmtree(job.folder, ignore_errors=True)

    def _report_program(self, loaded: bool) -> None:
        if self.on_program is not None:
            self.on_program(loaded)

    def _publish(self, folder: Path, digest: str) -> Artifact | None:
        """Rename a complete artifact to its final name. Another process may have published it first."""
        with contextlib.suppress(OSError):
            os.rename(folder, self.folder / digest)
        artifact = self._load(digest)
        if artifact is None:  # the folder of this name is unusable: some of its files were removed
            shutil.rmtree(self.folder / digest, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.rename(folder, self.folder / digest)
            artifact = self._load(digest)
        return artifact

    def _record_failure(self, job: _CompilationJob, reason: str, expected: bool = False) -> None:
        self.failures[job.digest] = reason
        log.log(logging.DEBUG if expected else logging.WARNING, "a graph stays interpreted: %s", reason)


_service: CompilationService | None = None


def service() -> CompilationService:
    """Return the service of this process. A forked child gets a new service."""
    global _service
    if _service is None or _service._owner != os.getpid():
        from habana_frameworks.torch import _C

        _service = CompilationService(on_program=_C.count_program)
    return _service


def request(description: dict[str, Any], on_ready: OnReady | None = None) -> str | None:
    """Call `Service.request` of this process's service."""
    return service().request(description, on_ready)


def poll() -> list[Artifact]:
    """Call `Service.poll` of this process's service."""
    return [] if _service is None else _service.poll()
