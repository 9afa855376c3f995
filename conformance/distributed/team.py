"""The world of this worker, and what the answers of its ranks mean for a result."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Any

from conformance.checking import refusal
from conformance.checking.invocation import report_error
from conformance.checking.recorder import Recorder
from conformance.distributed import RANKS
from conformance.distributed.answers import Answer, Ending
from conformance.distributed.world import World
from conformance.model.verdicts import Kind
from conformance.target.target import Target

_worlds: dict[str, World] = {}


def size() -> int:
    """How many ranks the world has; two where nobody says."""
    return int(os.environ.get(RANKS, "2"))


def world(target: Target) -> World:
    """The world of this process for a target; its ranks live from the first program to the end."""
    if target.file not in _worlds:
        found = _worlds[target.file] = World(target.file, size())
        atexit.register(found.kill)
    return _worlds[target.file]


def report(target: Target, recorder: Recorder, answers: list[Answer], what: str) -> bool:
    """Whether all ranks answered with a value. Else the first cause is recorded as a failure.

    What one rank raises or dies of makes the others late, so that lateness counts only where there is nothing
    else.
    """
    bad = [answer for answer in answers if not answer.ok]
    if not bad:
        return True
    recorder.compared(1)
    order = (Ending.GONE, Ending.ERROR, Ending.LATE)
    first = min(bad, key=lambda answer: (order.index(answer.ending), answer.rank))
    if first.ending is Ending.ERROR:
        error = first.exception()
        why = refusal.why(target, recorder.id, recorder.lacking)
        if why is not None and len(bad) == len(answers) and isinstance(error, (TypeError, ValueError)):
            # Of collectives these are clean answers too: c10d itself refuses dtypes and operators with them.
            recorder.unsupported(why)
        else:
            report_error(target, recorder, error, what=f"{what} on rank {first.rank}")
    elif first.ending is Ending.GONE:
        recorder.fail(Kind.CRASH, f"{what}: {first.words()}")
    else:
        late = ", ".join(str(answer.rank) for answer in bad)
        recorder.fail(Kind.TIMEOUT, f"{what}: no answer in time from rank {late}")
    for answer in bad:
        if answer is not first or answer.ending is Ending.LATE:
            recorder.note(answer.words())
    return False


def values(
    target: Target, recorder: Recorder, program: Callable[..., Any], *, what: str, **arguments: Any
) -> list[Any] | None:
    """What a program returns on each rank, by rank; None, and a failure, where one of them has nothing.

    ``arguments`` are the program's, and ``limit`` and ``grace`` of :meth:`World.run`.
    """
    answers = world(target).run(program, **arguments)
    if not report(target, recorder, answers, what):
        return None
    return [answer.value for answer in answers]
