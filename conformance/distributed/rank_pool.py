"""Start the processes of all ranks, run rank programs in them, and restart all of them if one fails."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.distributed import scale_time_limit
from conformance.distributed.rank_programs import program_name, sum_over_all_ranks
from conformance.distributed.rank_replies import RankReply, ReplyKind, from_bytes, to_bytes
from conformance.process_control.child import Child, ChildEnd, EndKind, stop
from conformance.process_control.supervisor import receive_all

#: Time limit in seconds for starting the ranks, until all have joined the process group.
START = 90.0
#: Default timeout of a collective in seconds.
TIMEOUT = 30.0
#: Seconds after the failure of one rank in which the other ranks must reply. Without this limit they would
#: wait for the failed rank until their collectives time out.
GRACE = 3.0
#: Time limit in seconds for the sum that checks the process group after all ranks raised the same error.
AGREE = 5.0
#: Seconds in which the ranks must exit before they are killed.
LEAVE = 10.0


class RankPool:
    """The processes of the ``size`` ranks of a target's process group.

    ``file`` is the path of the target file. ``timeout`` is the timeout of collectives in seconds; the default
    is ``TIMEOUT``, extended by :func:`scale_time_limit`. The first :meth:`run` starts the processes. The
    processes end when :meth:`close` or :meth:`kill` is called, or when the worker ends. The ranks initialise
    the process group through a file in a temporary folder, which is deleted when the processes end.
    """

    def __init__(self, file: str, size: int, *, timeout: float | None = None) -> None:
        self.file = file
        self.size = size
        self.timeout = scale_time_limit(TIMEOUT) if timeout is None else timeout
        self._ranks: list[Child] = []
        self._folder: Path | None = None

    def run(
        self,
        program: Callable[..., Any],
        *,
        limit: float | None = None,
        grace: float = GRACE,
        **arguments: Any,
    ) -> list[RankReply]:
        """Run a rank program on all ranks with ``arguments``, and return the replies by rank.

        ``limit`` is the time limit for all ranks in seconds (default: twice the timeout of collectives).
        ``grace`` is the time that the other ranks get after one rank failed. Both times are extended by
        :func:`scale_time_limit`.

        If a rank fails, the processes are killed, because other ranks may still wait for the failed rank.
        Exception: if all ranks raised the same error, the processes are reused, provided that a sum over all
        ranks is still correct.
        """
        if any(child.has_ended() for child in self._ranks):
            self.kill()  # a rank that ended after the last program must not make this program fail
        try:
            return self._run_message(to_bytes((program_name(program), arguments)), limit, grace)
        except BaseException:
            self.kill()  # unread replies would be read as the replies of the next program
            raise

    def _run_message(self, message: bytes, limit: float | None, grace: float) -> list[RankReply]:
        trouble = self._start()
        if trouble:
            self.kill()
            return trouble
        self._send_to_all_ranks(message)
        answers = self._receive_replies(
            2 * self.timeout if limit is None else scale_time_limit(limit), scale_time_limit(grace)
        )
        if not all(answer.ok for answer in answers) and not self._still_sums_correctly(answers):
            self.kill()
        return answers

    def _still_sums_correctly(self, answers: list[RankReply]) -> bool:
        """Return whether all ranks raised the same error and still compute the correct sum over all ranks."""
        if len({(answer.ending, answer.error) for answer in answers}) > 1 or answers[0].error == ():
            return False
        self._send_to_all_ranks(to_bytes((program_name(sum_over_all_ranks), {})))
        sums = self._receive_replies(scale_time_limit(AGREE), 0.0)
        return all(answer.ok and answer.value == self.size * (self.size + 1) / 2 for answer in sums)

    def _send_to_all_ranks(self, message: bytes) -> None:
        for child in self._ranks:
            child.send(message)

    def _receive_replies(self, limit: float, grace: float) -> list[RankReply]:
        """Return the next reply of each rank. A rank that is late is killed after it has dumped its
        stacks.
        """
        replies = receive_all(self._ranks, from_bytes, limit=limit, grace=grace, ok=_is_ok)
        return [
            _reply_about_ended_process(rank, one) if isinstance(one, ChildEnd) else one
            for rank, one in enumerate(replies)
        ]

    def _start(self) -> list[RankReply]:
        """Start the ranks unless they run already. If a rank does not join the process group, return the
        replies of all ranks, otherwise an empty list.
        """
        if self._ranks:
            return []
        self._folder = Path(tempfile.mkdtemp(prefix="conformance-world-"))
        for rank in range(self.size):
            self._ranks.append(self._launch(rank, self._folder))
        answers = self._receive_replies(scale_time_limit(START), scale_time_limit(GRACE))
        return [] if all(answer.ok for answer in answers) else answers

    def _launch(self, rank: int, folder: Path) -> Child:
        command = [sys.executable, "-m", "conformance.distributed.rank_main", self.file]
        command += ["--rank", str(rank), "--size", str(self.size), "--meeting", str(folder / "meeting")]
        command += ["--timeout", str(self.timeout)]
        variables = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_WORLD_SIZE": str(self.size),
        }
        return Child.exec(command, variables, log=folder / f"rank-{rank}.log", channel=True)

    def close(self) -> None:
        """Ask the ranks to exit, kill the ranks that do not exit in time, and delete the temporary folder."""
        self._stop_all_ranks(scale_time_limit(LEAVE))

    def kill(self) -> None:
        """Kill the ranks and delete the temporary folder."""
        self._stop_all_ranks(0.0)

    def _stop_all_ranks(self, grace_seconds: float) -> None:
        stop(self._ranks, grace_seconds=grace_seconds)
        self._ranks = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _is_ok(answer: RankReply) -> bool:
    return answer.ok


def _reply_about_ended_process(rank: int, end: ChildEnd) -> RankReply:
    """Return the reply that reports how the process of a rank ended."""
    if end.how is EndKind.TIMED_OUT:
        return RankReply(rank, ReplyKind.LATE, text=_innermost_frames(end.stacks))
    return RankReply(rank, ReplyKind.GONE, text=": ".join(filter(None, [end.cause, end.last_line[:300]])))


def _innermost_frames(stacks: str) -> str:
    """Return one line with the innermost frames of the last eight threads of a ``faulthandler`` dump."""
    lines = stacks.splitlines()
    first_lines = [
        line_number
        for line_number, line in enumerate(lines)
        if line.startswith(("Thread 0x", "Current thread 0x"))
    ]
    return "; ".join(
        " <- ".join(part.strip() for part in lines[line_number + 1 : line_number + 5])
        for line_number in first_lines[-8:]
    )
