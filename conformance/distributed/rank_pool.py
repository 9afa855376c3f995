"""A world of ranks: started by the worker, given programs, and replaced if one of them is lost."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.distributed import patient
from conformance.distributed.rank_programs import agree, name_of
from conformance.distributed.rank_replies import Ending, RankReply, packed, unpacked
from conformance.process_control.child import Child, ChildEnd, How, stop
from conformance.process_control.supervisor import receive_all

#: Seconds in which all ranks must have joined the process group.
START = 90.0
#: Seconds after which a collective gives up.
TIMEOUT = 30.0
#: Seconds that the others get once one rank has failed: they may wait for it for as long as collectives take.
GRACE = 3.0
#: Seconds in which ranks must agree on a sum after all have raised the same.
AGREE = 5.0
#: Seconds that ranks get to leave by themselves.
LEAVE = 10.0


class RankPool:
    """``size`` ranks of a target's process group.

    ``file`` is the target file, ``timeout`` the seconds after which a collective gives up (default:
    ``TIMEOUT``, or more if results may take long). The processes start with the first program and end with
    :meth:`close`, or with the worker. They meet in a file in a temporary folder, which :meth:`close` removes.
    """

    def __init__(self, file: str, size: int, *, timeout: float | None = None) -> None:
        self.file = file
        self.size = size
        self.timeout = patient(TIMEOUT) if timeout is None else timeout
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
        """Return the answers of all ranks to a program, by rank.

        A world in which a rank has not answered with a value is not used again, since other ranks may still
        wait for that one. If all have raised the same error it is used again, provided that they still agree
        on a sum. ``limit``: seconds for all of them (default: twice the collectives' timeout), ``grace``:
        seconds for the others once one has failed; both grow with the limit of a result.
        """
        if any(child.has_ended() for child in self._ranks):
            self.kill()  # one has ended since the last program, which must not count against this one
        try:
            return self._run(packed((name_of(program), arguments)), limit, grace)
        except BaseException:
            self.kill()  # unread answers would be taken for those of the next program
            raise

    def _run(self, message: bytes, limit: float | None, grace: float) -> list[RankReply]:
        trouble = self._start()
        if trouble:
            self.kill()
            return trouble
        self._send(message)
        answers = self._answers(2 * self.timeout if limit is None else patient(limit), patient(grace))
        if not all(answer.ok for answer in answers) and not self._agrees(answers):
            self.kill()
        return answers

    def _agrees(self, answers: list[RankReply]) -> bool:
        """Return whether all ranks have raised the same error and still agree on a sum."""
        if len({(answer.ending, answer.error) for answer in answers}) > 1 or answers[0].error == ():
            return False
        self._send(packed((name_of(agree), {})))
        sums = self._answers(patient(AGREE), 0.0)
        return all(answer.ok and answer.value == self.size * (self.size + 1) / 2 for answer in sums)

    def _send(self, message: bytes) -> None:
        for child in self._ranks:
            child.send(message)

    def _answers(self, limit: float, grace: float) -> list[RankReply]:
        """Return the next answer of each rank; one that is late is ended, after it has dumped its stacks."""
        found = receive_all(self._ranks, unpacked, limit=limit, grace=grace, ok=_is_ok)
        return [_reply_of(rank, one) if isinstance(one, ChildEnd) else one for rank, one in enumerate(found)]

    def _start(self) -> list[RankReply]:
        """Start the ranks unless they run; return their answers if one does not join the group."""
        if self._ranks:
            return []
        self._folder = Path(tempfile.mkdtemp(prefix="conformance-world-"))
        for rank in range(self.size):
            self._ranks.append(self._launch(rank, self._folder))
        answers = self._answers(patient(START), patient(GRACE))
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
        """End the ranks: by themselves if they can, else by force. Leaves no process and no file."""
        self._end(patient(LEAVE))

    def kill(self) -> None:
        """End the ranks at once."""
        self._end(0.0)

    def _end(self, patience: float) -> None:
        stop(self._ranks, patience=patience)
        self._ranks = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _is_ok(answer: RankReply) -> bool:
    return answer.ok


def _reply_of(rank: int, end: ChildEnd) -> RankReply:
    """Return the end of a rank's process as its answer."""
    if end.how is How.TIMED_OUT:
        return RankReply(rank, Ending.LATE, text=_innermost(end.stacks))
    return RankReply(rank, Ending.GONE, text=": ".join(filter(None, [end.cause, end.last_line[:300]])))


def _innermost(stacks: str) -> str:
    """Return the innermost lines of the stacks of the last threads in a dump."""
    lines = stacks.splitlines()
    heads = [place for place, line in enumerate(lines) if line.startswith(("Thread 0x", "Current thread 0x"))]
    return "; ".join(
        " <- ".join(part.strip() for part in lines[place + 1 : place + 5]) for place in heads[-8:]
    )
