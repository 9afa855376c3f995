"""A child process that may crash or hang: its process group, its channel, its log file and its end."""

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
from conformance.process_control.channel import Channel, Unreadable
from conformance.process_control.parent_link import ParentLink

#: Seconds that a process may take to end after it has closed its channel: Python closes it early.
LEAVE = 10.0
#: Seconds that a process group gets after SIGTERM, and seconds to wait for the kernel after SIGKILL.
STOP, KILL = 3.0, 10.0
#: Seconds between two checks of a process that sends nothing.
TICK = 0.05
#: Bytes of the end of a log file that a ChildEnd holds, and that are read of one at most.
LOG_TAIL, LOG_READ = 4096, 1 << 20


class How(enum.Enum):
    """The kind of end of a child process."""

    #: By itself, with an exit code.
    EXITED = "exited"
    #: By a signal that the supervisor did not send.
    CRASHED = "crashed"
    #: Stopped, because its time was up.
    TIMED_OUT = "timed out"
    #: Stopped, because there was no heartbeat within the silence limit.
    STALLED = "stalled"
    #: Stopped, because it had closed its channel or had sent what is not a message.
    BROKEN = "broken"
    #: Stopped, because it was not needed any more.
    STOPPED = "stopped"


@dataclasses.dataclass(frozen=True)
class ChildEnd:
    """The end of a child process.

    ``code`` is its exit code, or the negative number of the signal that ended it. ``step`` is the last step
    that it announced for its unit of work. ``stacks`` are those of its threads, if they were asked for.
    """

    how: How
    code: int
    log_tail: str = ""
    step: str | None = None
    stacks: str = ""

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the process; None if it exited."""
        if self.code >= 0:
            return None
        try:
            return signal.Signals(-self.code).name
        except ValueError:  # a real-time signal
            return f"SIG{-self.code}"

    @property
    def cause(self) -> str:
        """The reason why the process ended: a signal, an exit code or a broken channel."""
        if self.how is How.BROKEN:
            return "a broken channel"
        return f"exit code {self.code}" if self.signal is None else f"signal {self.signal}"

    @property
    def last_line(self) -> str:
        """The last line of the log file that is not empty; an empty text if there is none."""
        return next(reversed(self.log_tail.strip().splitlines()), "")


class Child:
    """A process in a process group of its own, which ends with it.

    The parent never waits for a child without a limit: :meth:`send` does not block, :meth:`receive` returns
    when its time is up, and :meth:`stop` ends in SIGKILL. Everything that the process prints goes to its log
    file. One thread at a time may use a child. The process ends with the thread that started it.
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
        """Start a command; OSError or ValueError if there can be no such process.

        Args:
            command: the program and its arguments. A program of the suite calls
                :func:`exit_with_parent.follow` or :meth:`ParentLink.connect`.
            environment: the environment variables; None takes those of this process.
            log: the file to which the output of the process is appended.
            channel: whether the process gets a channel, which :meth:`ParentLink.connect` opens.
            stdout: whether standard output goes to the log file too; else it is dropped.
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
        """Run a function in a copy of this process, which prints to the same output.

        The function's result is the exit code. The process leaves at once afterwards, without cleaning up: a
        device may hang whatever would be cleaned up.
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
                code = work(ParentLink.over(theirs))
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
        """Send a message. The next calls of :meth:`receive` send the bytes that the channel cannot hold.

        Nothing is raised if the process has ended: :meth:`receive` returns how.
        """
        if self.channel is not None:
            self.channel.send(message)

    def receive(self, seconds: float) -> bytes | ChildEnd | None:
        """Return the next message, the end of the process after its last message, or None if time is up.

        A process that has closed its channel without ending is stopped.
        """
        limit = time.monotonic() + seconds
        while True:
            ended = self.has_ended()  # asked first: everything that it sent can be read from now on
            if ended:
                self._signal(signal.SIGKILL)  # the rest of its group can send nothing after it
            if self.channel is not None:
                self.channel.flush()
                try:
                    message = self.channel.receive()
                except Unreadable:
                    return self.stop(How.BROKEN)
                if message is not None:
                    return message
            if ended:
                return self._finish(None)
            if self.channel is not None and self.channel.at_end:
                return self.stop(How.BROKEN, patience=LEAVE)
            rest = limit - time.monotonic()
            if rest <= 0:
                return None
            wait([self], rest)

    def has_ended(self) -> bool:
        """Return whether the process has ended, without taking notice of it: its group stays addressable."""
        if self.end is not None or self._code is not None:
            return True
        try:
            if hasattr(os, "waitid"):
                options = os.WEXITED | os.WNOHANG | os.WNOWAIT
                return os.waitid(os.P_PID, self.pid, options) is not None
            self._reap()
        except ChildProcessError:  # this process ignores SIGCHLD
            self._code = 0
        return self._code is not None

    def _reap(self) -> None:
        """Take the exit code of the process if it has ended."""
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
            except ProcessLookupError:  # a forked process that has not made its group yet
                os.kill(self.pid, number)

    def _finish(self, how: How | None) -> ChildEnd:
        """Return the end of the process; None as ``how`` means by itself."""
        if self.end is None:
            self._signal(signal.SIGKILL)  # what it left behind
            if self._code is None:
                self._reap()
            # A process that the kernel cannot end, in a driver that hangs, is not waited for.
            code = -signal.SIGKILL if self._code is None else self._code
            if self._process is not None:
                self._process.returncode = code
            self.disconnect()
            self.end = ChildEnd(how or (How.CRASHED if code < 0 else How.EXITED), code, self.log_tail())
        return self.end

    def disconnect(self) -> None:
        """Close the channel; the process can still read what was sent."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def log_tail(self, size: int = LOG_TAIL) -> str:
        """Return the end of what was written to the log file since the process started."""
        return self.log_after(max(self._position, self.log_size() - size))

    def log_size(self) -> int:
        """Return the length of the log file in bytes."""
        try:
            return 0 if self.log is None else self.log.stat().st_size
        except OSError:
            return 0

    def log_after(self, position: int) -> str:
        """Return the text of the log file after a position, LOG_READ bytes at most."""
        try:
            if self.log is None:
                return ""
            with self.log.open("rb") as file:
                file.seek(position)
                return file.read(LOG_READ).decode(errors="replace")
        except OSError:
            return ""

    def stop(self, how: How = How.STOPPED, *, patience: float = 0.0) -> ChildEnd:
        """End the process and its group; see :func:`stop`."""
        return stop([self], how, patience=patience)[0]


def wait(children: Sequence[Child], seconds: float) -> None:
    """Wait until a message arrives, a channel closes or TICK has passed, at most ``seconds``."""
    channels = [child.channel for child in children if child.channel is not None]
    if any(channel.has_message for channel in channels):
        return
    with selectors.DefaultSelector() as selector:
        for channel in channels:
            channel.register(selector)
        if selector.get_map():
            selector.select(min(seconds, TICK))
        else:
            time.sleep(min(seconds, TICK))


def stop(children: Sequence[Child], how: How = How.STOPPED, *, patience: float = 0.0) -> list[ChildEnd]:
    """End processes with their groups and return how each ended.

    Their channels close, and they get ``patience`` seconds to leave by themselves. The others get SIGTERM
    and, ``STOP`` seconds later, SIGKILL. ``how`` is the end of those that did not leave by themselves.
    """
    for child in children:
        child.disconnect()
    _until_ended(children, patience)
    stopped = [child for child in children if not child.has_ended()]
    for number, seconds in ((signal.SIGTERM, STOP), (signal.SIGKILL, KILL)):
        for child in stopped:
            if not child.has_ended():
                child._signal(number)
        _until_ended(stopped, seconds)
    return [child._finish(how if child in stopped else None) for child in children]


def _until_ended(children: Sequence[Child], seconds: float) -> None:
    limit = time.monotonic() + seconds
    pause = 0.001
    while time.monotonic() < limit and not all(child.has_ended() for child in children):
        time.sleep(pause)
        pause = min(2 * pause, TICK)
