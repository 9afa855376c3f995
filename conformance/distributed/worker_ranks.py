"""Run rank programs in the rank pool of this worker, and record ranks that fail."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Any

from conformance.distributed import RANKS
from conformance.distributed.rank_pool import RankPool
from conformance.distributed.rank_replies import RankReply, ReplyKind
from conformance.framework import refusals
from conformance.framework.calls import report_error
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.target.target import Target

_pools: dict[str, RankPool] = {}


def world_size() -> int:
    """Return the number of ranks of this worker's pool. The default is 2."""
    return int(os.environ.get(RANKS, "2"))


def rank_pool(target: Target) -> RankPool:
    """Return the rank pool of this process for a target. The pool is killed when this process exits."""
    if target.file not in _pools:
        new = _pools[target.file] = RankPool(target.file, world_size())
        atexit.register(new.kill)
    return _pools[target.file]


def require_values_from_all_ranks(
    target: Target, recorder: Recorder, replies: list[RankReply], label: str
) -> bool:
    """Return True if all ranks replied with a value. Otherwise record one failure and return False.

    A rank that raises or crashes delays the other ranks. A late rank is therefore recorded as the failure
    only if no rank raised or crashed.
    """
    failed = [reply for reply in replies if not reply.ok]
    if not failed:
        return True
    recorder.compared(1)
    order = (ReplyKind.GONE, ReplyKind.ERROR, ReplyKind.LATE)
    first = min(failed, key=lambda reply: (order.index(reply.ending), reply.rank))
    if first.ending is ReplyKind.ERROR:
        error = first.exception()
        refusal_reason = refusals.refusal_reason(target, recorder.id, recorder.lacking)
        if (
            refusal_reason is not None
            and len(failed) == len(replies)
            and isinstance(error, (TypeError, ValueError))
        ):
            # TypeError and ValueError are clean refusals too, because c10d raises them for dtypes and reduce
            # operators that a backend does not support.
            recorder.unsupported(refusal_reason)
        else:
            report_error(target, recorder, error, label=f"{label} on rank {first.rank}")
    elif first.ending is ReplyKind.GONE:
        recorder.fail(Kind.CRASH, f"{label}: {first.describe()}")
    else:
        late_ranks = ", ".join(str(reply.rank) for reply in failed)
        recorder.fail(Kind.TIMEOUT, f"{label}: no answer in time from rank {late_ranks}")
    for reply in failed:
        if reply is not first or reply.ending is ReplyKind.LATE:
            recorder.note(reply.describe())
    return False


def values_of_ranks(
    target: Target, recorder: Recorder, program: Callable[..., Any], *, label: str, **arguments: Any
) -> list[Any] | None:
    """Run a rank program and return its values by rank. If a rank fails, record the failure and return None.

    ``arguments`` are the arguments of the program, and optionally ``limit`` and ``grace`` of
    ``RankPool.run``.
    """
    replies = rank_pool(target).run(program, **arguments)
    if not require_values_from_all_ranks(target, recorder, replies, label):
        return None
    return [reply.value for reply in replies]
