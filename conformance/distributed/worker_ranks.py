"""The rank pool of this worker, and the evaluation of its ranks' replies."""

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

_pools: dict[str, RankPool] = {}


def world_size() -> int:
    """Return the number of ranks; two unless the runner sets a different number."""
    return int(os.environ.get(RANKS, "2"))


def rank_pool(target: Target) -> RankPool:
    """Return the rank pool of this process for a target. Its ranks run from the first program to the end."""
    if target.file not in _pools:
        new = _pools[target.file] = RankPool(target.file, world_size())
        atexit.register(new.kill)
    return _pools[target.file]


def report_failed_ranks(target: Target, recorder: Recorder, replies: list[RankReply], label: str) -> bool:
    """Return whether all ranks replied with a value; otherwise record the first cause as a failure.

    A rank that raises or dies delays the other ranks, so a late rank is reported only if no rank failed
    otherwise.
    """
    failed = [reply for reply in replies if not reply.ok]
    if not failed:
        return True
    recorder.compared(1)
    order = (Ending.GONE, Ending.ERROR, Ending.LATE)
    first = min(failed, key=lambda reply: (order.index(reply.ending), reply.rank))
    if first.ending is Ending.ERROR:
        error = first.exception()
        refusal_reason = refusals.refusal_reason(target, recorder.id, recorder.lacking)
        if (
            refusal_reason is not None
            and len(failed) == len(replies)
            and isinstance(error, (TypeError, ValueError))
        ):
            # For collectives these are clean refusals too: c10d raises them for dtypes and operators.
            recorder.unsupported(refusal_reason)
        else:
            report_error(target, recorder, error, label=f"{label} on rank {first.rank}")
    elif first.ending is Ending.GONE:
        recorder.fail(Kind.CRASH, f"{label}: {first.describe()}")
    else:
        late_ranks = ", ".join(str(reply.rank) for reply in failed)
        recorder.fail(Kind.TIMEOUT, f"{label}: no answer in time from rank {late_ranks}")
    for reply in failed:
        if reply is not first or reply.ending is Ending.LATE:
            recorder.note(reply.describe())
    return False


def values_of_ranks(
    target: Target, recorder: Recorder, program: Callable[..., Any], *, label: str, **arguments: Any
) -> list[Any] | None:
    """Return the values that a rank program returns, by rank; on a failure record it and return None.

    ``arguments`` are the program's arguments, and ``limit`` and ``grace`` of the rank pool's ``run``.
    """
    replies = rank_pool(target).run(program, **arguments)
    if not report_failed_ranks(target, recorder, replies, label):
        return None
    return [reply.value for reply in replies]
