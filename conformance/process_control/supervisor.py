"""Supervise child processes that may crash or hang: start them, send them work, watch them and stop them."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from conformance.process_control.child import TICK, Child, ChildEnd, EndKind, stop, wait

Unit = TypeVar("Unit")
Reply = TypeVar("Reply")

#: Seconds to wait until a process has written the stacks of its threads.
DUMP = 1.0


def wait_for_end(
    child: Child,
    *,
    limit: float = math.inf,
    silence: float = math.inf,
    heartbeat: Callable[[], bool] = lambda: False,
) -> ChildEnd:
    """Wait for the end of a process, stop it if a limit is exceeded, and return its end.

    Args:
        child: the process. Each message counts as a heartbeat; its content is ignored.
        limit: seconds that the process may run.
        silence: seconds that may pass between two heartbeats.
        heartbeat: is called about every 0.1 s. It returns True if the process made progress.
    """
    started = heard = time.monotonic()
    while True:
        message = child.receive(2 * TICK)
        if isinstance(message, ChildEnd):
            return message
        now = time.monotonic()
        if heartbeat() or message is not None:
            heard = now
        if now - started > limit:
            return child.stop(EndKind.TIMED_OUT)
        if now - heard > silence:
            return child.stop(EndKind.STALLED)


def run_command(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    log: Path,
    limit: float,
    stdout: bool = True,
) -> ChildEnd:
    """Run a command for at most ``limit`` seconds, and return its end. :meth:`Child.exec` documents the other
    arguments.
    """
    with Child.exec(command, environment, log=log, stdout=stdout) as child:
        return wait_for_end(child, limit=limit)


def dump_stacks(children: Sequence[Child]) -> list[str]:
    """Return one text per process with the stacks of its threads. This works while a thread holds the GIL.

    The text is empty if the process wrote no stacks. The caller must stop the processes afterwards, because
    SIGUSR1, which requests the stacks, kills a process that has not called :meth:`ParentLink.connect` yet.
    """
    positions = [child.log_size() for child in children]
    for child in children:
        if not child.has_ended():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGUSR1)
    limit = time.monotonic() + DUMP
    sizes: list[int] = []
    while children and time.monotonic() < limit:
        time.sleep(0.1)
        before, sizes = sizes, [child.log_size() for child in children]
        if sizes == before and all(new > old for old, new in zip(positions, sizes, strict=True)):
            break  # every process has written stacks, and no log file has grown since the last iteration
    return [child.log_after(position) for child, position in zip(children, positions, strict=True)]


def receive_all(
    children: Sequence[Child],
    decode: Callable[[bytes], Reply],
    *,
    limit: float,
    grace: float,
    ok: Callable[[Reply], bool],
) -> list[Reply | ChildEnd]:
    """Return the next message of each process, or the process's end.

    A process that sends no message in time is stopped. Its ``ChildEnd`` contains the stacks of its threads.

    Args:
        children: the processes. They may wait for each other.
        decode: converts a message. If it raises, the process is stopped.
        limit: time limit for all processes in seconds.
        grace: time limit for the remaining processes in seconds, after one process has failed.
        ok: returns True if a message reports success.
    """
    end = time.monotonic() + limit
    found: dict[int, Reply | ChildEnd] = {}
    while True:
        for number, child in enumerate(children):
            message = None if number in found else child.receive(0.0)
            if message is None:
                continue
            reply = found[number] = _decode_or_stop(child, message, decode)
            if isinstance(reply, ChildEnd) or not ok(reply):
                end = min(end, time.monotonic() + grace)
        missing = [number for number in range(len(children)) if number not in found]
        rest = end - time.monotonic()
        if not missing or rest <= 0:
            break
        wait([children[number] for number in missing], rest)
    late = [children[number] for number in missing]
    stacks = dump_stacks(late)
    for number, one, text in zip(missing, stop(late, EndKind.TIMED_OUT), stacks, strict=True):
        found[number] = dataclasses.replace(one, stacks=text)
    return [found[number] for number in range(len(children))]


def _decode_or_stop(
    child: Child, message: bytes | ChildEnd, decode: Callable[[bytes], Reply]
) -> Reply | ChildEnd:
    if isinstance(message, ChildEnd):
        return message
    try:
        return decode(message)
    except Exception:  # a broken process can send any data
        return child.stop(EndKind.BROKEN)


class ChildNotStarted(Exception):
    """A process ended or was stopped before it was ready. ``end`` describes the end."""

    def __init__(self, end: ChildEnd) -> None:
        super().__init__(f"a process ended before it was ready: {end.cause}")
        self.end = end


class _AttemptState(enum.Enum):
    """The state of an attempt at a unit of work."""

    #: The process is not ready yet.
    STARTING = enum.auto()
    #: The unit was sent to the process, which has not begun it.
    SENT = enum.auto()
    #: The process works on the unit. If the process ends now, its end is the outcome of the unit.
    BEGUN = enum.auto()
    #: The unit has a reply.
    DONE = enum.auto()


@dataclasses.dataclass
class _Attempt(Generic[Unit]):
    """An attempt at a unit of work, and the process that works on the unit."""

    unit: Unit
    child: Child
    state: _AttemptState
    heard: float = dataclasses.field(default_factory=time.monotonic)
    number: int = 1
    step: str | None = None
    reply: Any = None


class Supervisor(Generic[Unit]):
    """Runs units of work in child processes, and replaces a process that crashes or hangs.

    A process works on one unit at a time, such as a trial or a mutant, and a crash or hang loses only that
    unit. Units and replies are JSON values. A process receives units by :meth:`ParentLink.requests`. The
    processes run until :meth:`close`. Several threads may call :meth:`run_units` of the same supervisor.

    Args:
        spawn: starts a process with a channel.
        start: seconds in which a new process must become ready.
        workers: the number of processes that one call of :meth:`run_units` uses.
    """

    def __init__(self, spawn: Callable[[], Child], *, start: float, workers: int = 1) -> None:
        self._spawn = spawn
        self._start = start
        self._workers = workers
        self._started = False
        self._children: set[Child] = set()
        self._idle: list[Child] = []

    def __enter__(self) -> Supervisor[Unit]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop all processes, including the processes of iterators that are not exhausted."""
        self._idle.clear()
        self._stop(list(self._children))

    def run_units(self, units: Iterable[Unit], *, silence: float) -> Iterator[tuple[Unit, Any | ChildEnd]]:
        """Yield each unit once, with its reply or with the end of the process that worked on the unit.

        If a process ends before it begins its unit, the unit is sent to a new process, once. The next unit is
        taken from ``units`` only when a process is free and all earlier replies were yielded. When the
        iterator ends, processes with unfinished units are stopped.

        Args:
            units: the units. Only the thread that iterates reads them.
            silence: seconds that may pass between two messages of a process.

        Raises:
            ChildNotStarted: the first process, or two processes in a row for the same unit, did not become
                ready.
        """
        waiting = iter(units)
        more = True
        running: list[_Attempt[Unit]] = []
        try:
            while True:
                # Start one process until it is ready: it may build files that the other processes use.
                while more and len(running) < (self._workers if self._started else 1):
                    try:
                        running.append(self._attempt(next(waiting)))
                    except StopIteration:
                        more = False
                if not running:
                    return
                wait([attempt.child for attempt in running], TICK)
                for attempt in [one for one in running if self._read_message_of_attempt(one, silence)]:
                    running.remove(attempt)
                    if not isinstance(attempt.reply, ChildEnd):
                        self._idle.append(attempt.child)
                    yield attempt.unit, attempt.reply
        finally:
            self._stop([attempt.child for attempt in running])

    def _new_child(self) -> Child:
        child = self._spawn()
        self._children.add(child)
        return child

    def _stop(self, children: Sequence[Child]) -> None:
        stop(children)
        self._children.difference_update(children)

    def _attempt(self, unit: Unit) -> _Attempt[Unit]:
        """Send a unit to an idle process, or start a process for it, and return the attempt."""
        while True:
            try:
                child = self._idle.pop()
            except IndexError:
                return _Attempt(unit, self._new_child(), _AttemptState.STARTING)
            if child.has_ended():
                self._stop([child])
                continue
            child.send(json.dumps(unit).encode())
            return _Attempt(unit, child, _AttemptState.SENT)

    def _read_message_of_attempt(self, attempt: _Attempt[Unit], silence: float) -> bool:
        """Read one message of the attempt's process, and return whether the attempt is done."""
        message = attempt.child.receive(0.0)
        now = time.monotonic()
        if message is None:
            if now - attempt.heard <= (self._start if attempt.state is _AttemptState.STARTING else silence):
                return False
            message = attempt.child.stop(EndKind.STALLED)
        reply = _decode_or_stop(attempt.child, message, _parse_message)
        if isinstance(reply, ChildEnd):
            self._handle_child_end(attempt, reply)
            return attempt.state is _AttemptState.DONE
        attempt.heard = now
        match attempt.state, *reply:
            case _AttemptState.STARTING, "ready", _:
                self._started = True
                attempt.state = _AttemptState.SENT
                attempt.child.send(json.dumps(attempt.unit).encode())
            case _AttemptState.SENT, "begun", _:
                attempt.state = _AttemptState.BEGUN
            case _AttemptState.BEGUN, "step", step:
                attempt.step = step
            case _AttemptState.BEGUN, "reply", value:
                attempt.state, attempt.reply = _AttemptState.DONE, value
            case _:  # an unexpected message, such as a second reply to the same unit
                self._handle_child_end(attempt, attempt.child.stop(EndKind.BROKEN))
        return attempt.state is _AttemptState.DONE

    def _handle_child_end(self, attempt: _Attempt[Unit], end: ChildEnd) -> None:
        """Handle the end of the attempt's process. If the process had begun the unit, ``end`` becomes the
        reply to the unit. Otherwise a new process gets the unit, but only once.
        """
        self._children.discard(attempt.child)
        again = attempt.number == 1 and (self._started or attempt.state is not _AttemptState.STARTING)
        if attempt.state is _AttemptState.BEGUN or (attempt.state is _AttemptState.SENT and not again):
            attempt.state, attempt.reply = _AttemptState.DONE, dataclasses.replace(end, step=attempt.step)
        elif not again:
            raise ChildNotStarted(end)
        else:
            attempt.child = self._new_child()
            attempt.state, attempt.heard, attempt.number = _AttemptState.STARTING, time.monotonic(), 2


def _parse_message(message: bytes) -> tuple[str, Any]:
    word, value = json.loads(message)
    return word, value
