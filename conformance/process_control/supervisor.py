"""The supervisor of child processes that may crash or hang: it starts, watches, dumps and ends them."""

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

from conformance.process_control.child import TICK, Child, ChildEnd, How, stop, wait

Unit = TypeVar("Unit")
Reply = TypeVar("Reply")

#: Seconds in which a process writes the stacks of its threads.
DUMP = 1.0


def watch(
    child: Child,
    *,
    limit: float = math.inf,
    silence: float = math.inf,
    heartbeat: Callable[[], bool] = lambda: False,
) -> ChildEnd:
    """Wait for the end of a process, and stop it if a limit is exceeded.

    Args:
        child: the process. Its messages are heartbeats and otherwise ignored.
        limit: seconds that the process may take.
        silence: seconds that it may take from one heartbeat to the next.
        heartbeat: is called about every 0.1 s and returns whether there was a sign of progress.
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
            return child.stop(How.TIMED_OUT)
        if now - heard > silence:
            return child.stop(How.STALLED)


def run(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    log: Path,
    limit: float,
    stdout: bool = True,
) -> ChildEnd:
    """Run a command to its end, at most ``limit`` seconds; see :meth:`Child.exec` for the arguments."""
    with Child.exec(command, environment, log=log, stdout=stdout) as child:
        return watch(child, limit=limit)


def dump_stacks(children: Sequence[Child]) -> list[str]:
    """Return the stacks of the threads of processes, also if the GIL is held.

    A text is empty if the process has written nothing. Stop the processes afterwards: one that has not called
    :meth:`ParentLink.connect` yet is ended by this.
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
            break  # all have written something, and nothing was added since the last look
    return [child.log_after(position) for child, position in zip(children, positions, strict=True)]


def receive_all(
    children: Sequence[Child],
    decode: Callable[[bytes], Reply],
    *,
    limit: float,
    grace: float,
    ok: Callable[[Reply], bool],
) -> list[Reply | ChildEnd]:
    """Return one message of each process, or how it ended.

    Processes that have sent nothing in time are stopped, with their stacks in their ``ChildEnd``.

    Args:
        children: the processes; they may wait for each other.
        decode: reads a message; a process whose message it cannot read is stopped.
        limit: seconds for all processes.
        grace: seconds for the others once one of them has failed.
        ok: returns whether a message reports success.
    """
    end = time.monotonic() + limit
    found: dict[int, Reply | ChildEnd] = {}
    while True:
        for number, child in enumerate(children):
            message = None if number in found else child.receive(0.0)
            if message is None:
                continue
            reply = found[number] = _decoded(child, message, decode)
            if isinstance(reply, ChildEnd) or not ok(reply):
                end = min(end, time.monotonic() + grace)
        missing = [number for number in range(len(children)) if number not in found]
        rest = end - time.monotonic()
        if not missing or rest <= 0:
            break
        wait([children[number] for number in missing], rest)
    late = [children[number] for number in missing]
    stacks = dump_stacks(late)
    for number, one, text in zip(missing, stop(late, How.TIMED_OUT), stacks, strict=True):
        found[number] = dataclasses.replace(one, stacks=text)
    return [found[number] for number in range(len(children))]


def _decoded(child: Child, message: bytes | ChildEnd, decode: Callable[[bytes], Reply]) -> Reply | ChildEnd:
    if isinstance(message, ChildEnd):
        return message
    try:
        return decode(message)
    except Exception:  # whatever a broken process may have sent
        return child.stop(How.BROKEN)


class ChildNotStarted(Exception):
    """A process that ended, or was stopped, before it was ready; ``end`` says how."""

    def __init__(self, end: ChildEnd) -> None:
        super().__init__(f"a process ended before it was ready: {end.cause}")
        self.end = end


class _State(enum.Enum):
    """The state of an attempt."""

    #: The process is not ready yet.
    STARTING = enum.auto()
    #: The unit was sent and not begun.
    SENT = enum.auto()
    #: The process works on the unit: its end is charged to the unit.
    BEGUN = enum.auto()
    #: There is a reply.
    DONE = enum.auto()


@dataclasses.dataclass
class _Attempt(Generic[Unit]):
    """A unit and the process that it was given to."""

    unit: Unit
    child: Child
    state: _State
    heard: float = dataclasses.field(default_factory=time.monotonic)
    number: int = 1
    step: str | None = None
    reply: Any = None


class Supervisor(Generic[Unit]):
    """Processes that work on units one after the other, each replaced when it crashes or hangs.

    A unit is what a crash or hang costs: a trial, a mutant. Units and replies are JSON values. A process uses
    :meth:`ParentLink.requests`. The processes live until :meth:`close`. Several threads may call
    :meth:`run_units` of one supervisor.

    Args:
        spawn: starts a process with a channel.
        start: seconds in which a process must be ready.
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
        """End the processes, also those of an iterator that was not exhausted."""
        self._idle.clear()
        self._stop(list(self._children))

    def run_units(self, units: Iterable[Unit], *, silence: float) -> Iterator[tuple[Unit, Any | ChildEnd]]:
        """Yield each unit once, with its reply or with the end of the process that worked on it.

        A process that ended before it began the unit costs nothing: another one gets the unit, once. The next
        unit is taken only when a process is free, and after the replies so far were yielded. Processes with
        unfinished units end with the iterator.

        Args:
            units: are read by the thread that iterates.
            silence: seconds from one message of a process to the next.

        Raises:
            ChildNotStarted: the first process is never ready, or two in a row for one unit.
        """
        waiting = iter(units)
        more = True
        running: list[_Attempt[Unit]] = []
        try:
            while True:
                # The first process may have to build what the others then find.
                while more and len(running) < (self._workers if self._started else 1):
                    try:
                        running.append(self._attempt(next(waiting)))
                    except StopIteration:
                        more = False
                if not running:
                    return
                wait([attempt.child for attempt in running], TICK)
                for attempt in [one for one in running if self._advance(one, silence)]:
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
        """Give a unit to an idle process, or to a new one."""
        while True:
            try:
                child = self._idle.pop()
            except IndexError:
                return _Attempt(unit, self._new_child(), _State.STARTING)
            if child.has_ended():
                self._stop([child])
                continue
            child.send(json.dumps(unit).encode())
            return _Attempt(unit, child, _State.SENT)

    def _advance(self, attempt: _Attempt[Unit], silence: float) -> bool:
        """Take one message of the attempt's process; return whether the attempt is done."""
        message = attempt.child.receive(0.0)
        now = time.monotonic()
        if message is None:
            if now - attempt.heard <= (self._start if attempt.state is _State.STARTING else silence):
                return False
            message = attempt.child.stop(How.STALLED)
        reply = _decoded(attempt.child, message, _word_and_value)
        if isinstance(reply, ChildEnd):
            self._on_end(attempt, reply)
            return attempt.state is _State.DONE
        attempt.heard = now
        match attempt.state, *reply:
            case _State.STARTING, "ready", _:
                self._started = True
                attempt.state = _State.SENT
                attempt.child.send(json.dumps(attempt.unit).encode())
            case _State.SENT, "begun", _:
                attempt.state = _State.BEGUN
            case _State.BEGUN, "step", step:
                attempt.step = step
            case _State.BEGUN, "reply", value:
                attempt.state, attempt.reply = _State.DONE, value
            case _:  # such as a second reply to the last unit
                self._on_end(attempt, attempt.child.stop(How.BROKEN))
        return attempt.state is _State.DONE

    def _on_end(self, attempt: _Attempt[Unit], end: ChildEnd) -> None:
        """Charge the end of a process to its unit if it has begun the unit; else start another process."""
        self._children.discard(attempt.child)
        again = attempt.number == 1 and (self._started or attempt.state is not _State.STARTING)
        if attempt.state is _State.BEGUN or (attempt.state is _State.SENT and not again):
            attempt.state, attempt.reply = _State.DONE, dataclasses.replace(end, step=attempt.step)
        elif not again:
            raise ChildNotStarted(end)
        else:
            attempt.child = self._new_child()
            attempt.state, attempt.heard, attempt.number = _State.STARTING, time.monotonic(), 2


def _word_and_value(message: bytes) -> tuple[str, Any]:
    word, value = json.loads(message)
    return word, value
