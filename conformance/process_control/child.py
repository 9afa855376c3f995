"""Start a child process that may crash or hang, exchange messages with it, stop it, and describe its end."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from conformance.process_control import exit_with_parent, parent_link
from conformance.process_control.channel import Channel, UnreadableMessage
from conformance.process_control.parent_link import ParentLink

#: Seconds that a process may take to exit after its channel was closed. The time is long, because Python
#: closes sockets early when it exits.
LEAVE = 10.0
#: Seconds to wait for the end of a process group after SIGTERM, and after SIGKILL.
STOP, KILL = 3.0, 10.0
#: Seconds between two checks of a process that sends no message.
TICK = 0.05
#: Maximum numbers of bytes: ``LOG_TAIL`` from the end of a log file in a ChildEnd, and ``LOG_READ`` in one
#: read of a log file.
LOG_TAIL, LOG_READ = 4096, 1 << 20


class EndKind(enum.Enum):
    """The way in which a child process ended."""

    #: The process exited with an exit code.
    EXITED = "exited"
    #: A signal that the supervisor did not send ended the process.
    CRASHED = "crashed"
    #: The supervisor stopped the process, because the time limit was exceeded.
    TIMED_OUT = "timed out"
    #: The supervisor stopped the process, because the process sent no heartbeat within the silence limit.
    STALLED = "stalled"
    #: The supervisor stopped the process, because the process closed its channel or sent data that is not a
    #: message.
    BROKEN = "broken"
    #: The supervisor stopped the process, because the process was not needed any more.
    STOPPED = "stopped"


@dataclasses.dataclass(frozen=True)
class ChildEnd:
    """The end of a child process.

    ``code`` is the exit code, or the negative number of the signal that ended the process. ``step`` is the
    name of the last step that the process announced in its unit of work. ``stacks`` are the stacks of the
    threads, if they were requested.
    """

    how: EndKind
    code: int
    log_tail: str = ""
    step: str | None = None
    stacks: str = ""

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the process; None if the process exited."""
        if self.code >= 0:
            return None
        try:
            return signal.Signals(-self.code).name
        except ValueError:  # a real-time signal, which has no name
            return f"SIG{-self.code}"

    @property
    def cause(self) -> str:
        """The reason for the end as text: ``signal NAME``, ``exit code N`` or ``a broken channel``."""
        if self.how is EndKind.BROKEN:
            return "a broken channel"
        return f"exit code {self.code}" if self.signal is None else f"signal {self.signal}"

    @property
    def last_line(self) -> str:
        """The last non-empty line of ``log_tail``, or an empty text if ``log_tail`` contains no text."""
        return next(reversed(self.log_tail.strip().splitlines()), "")


class Child:
    """A child process in a separate process group, which is killed when the process ends.

    The parent never waits for a child without a time limit: :meth:`send` does not block, :meth:`receive` has
    a time limit, and :meth:`stop` sends SIGKILL if necessary. The output of the process goes to its log file.
    Only one thread at a time may use a Child. The process ends when the thread that started it ends.
    """

    def __init__(
        self,
        pid: int,
        channel: socket.socket | None,
        log: Path | None,
        position: int = 0,
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.pid = pid
        self.log = log
        self.channel = None if channel is None else Channel(channel)
        self.end: ChildEnd | None = None
        self._position = position
        self._process = process
        self._code: int | None = None

    @classmethod
    def exec(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        log: Path,
        channel: bool = False,
        stdout: bool = True,
    ) -> Child:
        """Start a command; raise OSError or ValueError if it cannot be started.

        Args:
            command: the program and its arguments. A program of the suite must call
                :func:`exit_with_parent.exit_with_parent` or :meth:`ParentLink.connect`.
            environment: the environment variables. None copies the variables of this process.
            log: the file to which the output of the process is appended.
            channel: whether to create a channel, which the process opens by :meth:`ParentLink.connect`.
            stdout: whether standard output is written to the log file too. Otherwise it is discarded.
        """
        variables = {**(os.environ if environment is None else environment)}
        variables[exit_with_parent.VARIABLE] = str(os.getpid())
        variables.pop(parent_link.VARIABLE, None)
        ours, theirs = socket.socketpair() if channel else (None, None)
        passed = []
        if theirs is not None:
            passed = [theirs.fileno()]
            variables[parent_link.VARIABLE] = str(theirs.fileno())
        try:
            with log.open("ab") as output:
                position = output.tell()
                process = subprocess.Popen(
                    command,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=output if stdout else subprocess.DEVNULL,
                    stderr=output,
                    pass_fds=passed,
                    start_new_session=True,
                )
        except BaseException:
            if ours is not None:
                ours.close()
            raise
        finally:
            if theirs is not None:
                theirs.close()
        return cls(process.pid, ours, log, position, process)

    @classmethod
    def fork(cls, work: Callable[[ParentLink], int]) -> Child:
        """Run a function in a fork of this process. The fork writes to the same standard output and standard
        error.

        The function returns the exit code. The fork then exits without cleanup, because cleanup of a device
        may hang.
        """
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = str(os.getpid())
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setsid()
                ours.close()
                os.environ[exit_with_parent.VARIABLE] = parent
                code = work(ParentLink.from_socket(theirs))
            finally:
                os._exit(code)
        theirs.close()
        return cls(pid, ours, None)

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def send(self, message: bytes) -> None:
        """Send a message. If the channel is full, the next calls of :meth:`receive` send the remaining bytes.

        If the process has ended, nothing is raised; :meth:`receive` returns the ChildEnd.
        """
        if self.channel is not None:
            self.channel.send(message)

    def receive(self, seconds: float) -> bytes | ChildEnd | None:
        """Return the next message, or the ChildEnd after the last message, or None after ``seconds``.

        A process that closed its channel and does not exit is stopped.
        """
        limit = time.monotonic() + seconds
        while True:
            ended = self.has_ended()  # check before reading: an ended process sends no more messages
            if ended:
                self._signal(signal.SIGKILL)  # stop the rest of its group, which could send messages
            if self.channel is not None:
                self.channel.flush()
                try:
                    message = self.channel.receive()
                except UnreadableMessage:
                    return self.stop(EndKind.BROKEN)
                if message is not None:
                    return message
            if ended:
                return self._finish(None)
            if self.channel is not None and self.channel.at_end:
                return self.stop(EndKind.BROKEN, grace_seconds=LEAVE)
            rest = limit - time.monotonic()
            if rest <= 0:
                return None
            wait([self], rest)

    def has_ended(self) -> bool:
        """Return whether the process has ended. The process is not reaped, so that signals can still be sent
        to its group.
        """
        if self.end is not None or self._code is not None:
            return True
        try:
            if hasattr(os, "waitid"):
                options = os.WEXITED | os.WNOHANG | os.WNOWAIT
                return os.waitid(os.P_PID, self.pid, options) is not None
            self._reap()
        except ChildProcessError:  # this process ignores SIGCHLD, so the kernel has reaped the child
            self._code = 0
        return self._code is not None

    def _reap(self) -> None:
        """Store the exit code of the process if the process has ended."""
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group."""
        if self.end is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:  # the forked process has not created its process group yet
                os.kill(self.pid, number)

    def _finish(self, how: EndKind | None) -> ChildEnd:
        """Kill the rest of the process group, and return the end of the process. ``how`` is None if the
        process was not stopped.
        """
        if self.end is None:
            self._signal(signal.SIGKILL)  # kill the processes that the child started
            if self._code is None:
                self._reap()
            # A process that hangs in a driver does not end on SIGKILL. Do not wait for the end of this
            # process.
            code = -signal.SIGKILL if self._code is None else self._code
            if self._process is not None:
                self._process.returncode = code
            self.disconnect()
            self.end = ChildEnd(
                how or (EndKind.CRASHED if code < 0 else EndKind.EXITED), code, self.log_tail()
            )
        return self.end

    def disconnect(self) -> None:
        """Close the channel. The process can still read the messages that were sent."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def log_tail(self, size: int = LOG_TAIL) -> str:
        """Return the end of the text that was written to the log file since the process started."""
        return self.log_after(max(self._position, self.log_size() - size))

    def log_size(self) -> int:
        """Return the length of the log file in bytes."""
        try:
            return 0 if self.log is None else self.log.stat().st_size
        except OSError:
            return 0

    def log_after(self, position: int) -> str:
        """Return the text of the log file after a byte position, at most LOG_READ bytes."""
        try:
            if self.log is None:
                return ""
            with self.log.open("rb") as file:
                file.seek(position)
                return file.read(LOG_READ).decode(errors="replace")
        except OSError:
            return ""

    def stop(self, how: EndKind = EndKind.STOPPED, *, grace_seconds: float = 0.0) -> ChildEnd:
        """Stop the process and its group, and return its end; see :func:`stop`."""
        return stop([self], how, grace_seconds=grace_seconds)[0]


def wait(children: Sequence[Child], seconds: float) -> None:
    """Wait until a message arrives or a channel closes, at most ``seconds`` and at most ``TICK`` seconds."""
    channels = [child.channel for child in children if child.channel is not None]
    if any(channel.has_message for channel in channels):
        return
    with selectors.DefaultSelector() as selector:
        for channel in channels:
            channel.register_with_selector(selector)
        if selector.get_map():
            selector.select(min(seconds, TICK))
        else:
            time.sleep(min(seconds, TICK))


def stop(
    children: Sequence[Child], how: EndKind = EndKind.STOPPED, *, grace_seconds: float = 0.0
) -> list[ChildEnd]:
    """Stop processes and their groups, and return the end of each process.

    The channels are closed, and the processes get ``grace_seconds`` seconds to exit. A process that does not
    exit gets SIGTERM and, ``STOP`` seconds later, SIGKILL. The ``ChildEnd`` of this process then has ``how``
    as the kind of end.
    """
    for child in children:
        child.disconnect()
    _wait_until_ended(children, grace_seconds)
    stopped = [child for child in children if not child.has_ended()]
    for number, seconds in ((signal.SIGTERM, STOP), (signal.SIGKILL, KILL)):
        for child in stopped:
            if not child.has_ended():
                child._signal(number)
        _wait_until_ended(stopped, seconds)
    return [child._finish(how if child in stopped else None) for child in children]


def _wait_until_ended(children: Sequence[Child], seconds: float) -> None:
    limit = time.monotonic() + seconds
    pause = 0.001
    while time.monotonic() < limit and not all(child.has_ended() for child in children):
        time.sleep(pause)
        pause = min(2 * pause, TICK)
