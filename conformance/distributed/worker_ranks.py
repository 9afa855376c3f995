"""The world of this worker, and the judgement of its ranks' answers."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Any

from conformance.distributed import RANKS
from conformance.distributed.rank_pool import RankPool
from conformance.distributed.rank_replies import Ending, RankReply
from conformance.framework import refusals
from conformance.framework.calls import report_error
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.target.target import Target

_worlds: dict[str, RankPool] = {}


def size() -> int:
    """Return the number of ranks in the world; two unless the runner says otherwise."""
    return int(os.environ.get(RANKS, "2"))


def world(target: Target) -> RankPool:
    """Return the world of this process for a target; its ranks live from the first program to the end."""
    if target.file not in _worlds:
        new = _worlds[target.file] = RankPool(target.file, size())
        atexit.register(new.kill)
    return _worlds[target.file]


def report(target: Target, recorder: Recorder, answers: list[RankReply], label: str) -> bool:
    """Return whether all ranks answered with a value; else record the first cause as a failure.

    A rank that raises or dies makes the others late, so lateness counts only if there is nothing else.
    """
    failed = [answer for answer in answers if not answer.ok]
    if not failed:
        return True
    recorder.compared(1)
    order = (Ending.GONE, Ending.ERROR, Ending.LATE)
    first = min(failed, key=lambda answer: (order.index(answer.ending), answer.rank))
    if first.ending is Ending.ERROR:
        error = first.exception()
        why = refusals.refusal_reason(target, recorder.id, recorder.lacking)
        if why is not None and len(failed) == len(answers) and isinstance(error, (TypeError, ValueError)):
            # Of collectives these are clean answers too: c10d itself refuses dtypes and operators with them.
            recorder.unsupported(why)
        else:
            report_error(target, recorder, error, label=f"{label} on rank {first.rank}")
    elif first.ending is Ending.GONE:
        recorder.fail(Kind.CRASH, f"{label}: {first.words()}")
    else:
        late = ", ".join(str(answer.rank) for answer in failed)
        recorder.fail(Kind.TIMEOUT, f"{label}: no answer in time from rank {late}")
    for answer in failed:
        if answer is not first or answer.ending is Ending.LATE:
            recorder.note(answer.words())
    return False


def values(
    target: Target, recorder: Recorder, program: Callable[..., Any], *, label: str, **arguments: Any
) -> list[Any] | None:
    """Return the values that a program returns, by rank; None, and a failure, if one of the ranks has none.

    ``arguments`` are the program's, and ``limit`` and ``grace`` of :meth:`World.run`.
    """
    answers = world(target).run(program, **arguments)
    if not report(target, recorder, answers, label):
        return None
    return [answer.value for answer in answers]
