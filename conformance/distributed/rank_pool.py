"""A world of ranks: started by the worker, given programs, and replaced if one of them is lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from conformance.distributed import patient
from conformance.distributed.rank_programs import agree, name_of
from conformance.distributed.rank_replies import Ending, RankReply, packed, unpacked
from conformance.process_control import exit_with_parent

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


class _Process:
    """A rank's process and the worker's end of its pipe."""

    def __init__(
        self, rank: int, process: subprocess.Popen[bytes], pipe: Connection[Any, Any], log: Path
    ) -> None:
        self.rank = rank
        self.process = process
        self.pipe = pipe
        self.log = log

    def answer(self) -> RankReply:
        """Return its next answer; the way in which it ended if it has closed its pipe."""
        try:
            answer: RankReply = unpacked(self.pipe.recv_bytes())
            return answer
        except (EOFError, OSError):
            code = self.process.wait()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            return RankReply(self.rank, Ending.GONE, text=f"{how}{self.last_words()}")

    def stacks(self) -> str:
        """Return the innermost lines of the stacks that it has written to its log on request."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        heads = [
            place for place, line in enumerate(lines) if line.startswith(("Thread 0x", "Current thread 0x"))
        ]
        return "; ".join(
            " <- ".join(part.strip() for part in lines[place + 1 : place + 5]) for place in heads[-8:]
        )

    def last_words(self) -> str:
        """Return the last line of its log, if there is one."""
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return f": {lines[-1][:300]}" if lines else ""


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
        self._processes: list[_Process] = []
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
        if any(process.process.poll() is not None for process in self._processes):
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
        for process in self._processes:
            with contextlib.suppress(OSError):  # one that is gone says so by its answer
                process.pipe.send_bytes(message)
        answers = self._answers(2 * self.timeout if limit is None else patient(limit), patient(grace))
        if not all(answer.ok for answer in answers) and not self._agrees(answers):
            self.kill()
        return answers

    def _agrees(self, answers: list[RankReply]) -> bool:
        """Return whether all ranks have raised the same error and still agree on a sum."""
        if len({(answer.ending, answer.error) for answer in answers}) > 1 or answers[0].error == ():
            return False
        message = packed((name_of(agree), {}))
        for process in self._processes:
            with contextlib.suppress(OSError):
                process.pipe.send_bytes(message)
        sums = self._answers(patient(AGREE), 0.0)
        return all(answer.ok and answer.value == self.size * (self.size + 1) / 2 for answer in sums)

    def _answers(self, limit: float, grace: float) -> list[RankReply]:
        end = time.monotonic() + limit
        missing = {process.pipe: process for process in self._processes}
        answers: dict[int, RankReply] = {}
        while missing:
            ready = wait(list(missing), max(0.0, end - time.monotonic()))
            if not ready:
                break
            for pipe in [pipe for pipe in missing if pipe in ready]:
                process = missing.pop(pipe)
                answer = answers[process.rank] = process.answer()
                if not answer.ok:
                    end = min(end, time.monotonic() + grace)
        late = [process for process in self._processes if process.rank not in answers]
        return sorted([*answers.values(), *where_they_are(late)], key=lambda answer: answer.rank)

    def _start(self) -> list[RankReply]:
        """Start the ranks unless they run; return their answers if one does not join the group."""
        if self._processes:
            return []
        self._folder = Path(tempfile.mkdtemp(prefix="conformance-world-"))
        for rank in range(self.size):
            self._processes.append(self._launch(rank, self._folder))
        answers = self._answers(patient(START), patient(GRACE))
        return [] if all(answer.ok for answer in answers) else answers

    def _launch(self, rank: int, folder: Path) -> _Process:
        mine, theirs = Pipe()
        log = folder / f"rank-{rank}.log"
        command = [sys.executable, "-m", "conformance.distributed.rank_main", self.file]
        command += ["--rank", str(rank), "--size", str(self.size), "--meeting", str(folder / "meeting")]
        command += ["--timeout", str(self.timeout), "--pipe", str(theirs.fileno())]
        variables = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_WORLD_SIZE": str(self.size),
            exit_with_parent.VARIABLE: str(os.getpid()),
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        theirs.close()
        return _Process(rank, process, mine, log)

    def close(self) -> None:
        """End the ranks: by themselves if they can, else by force. Leaves no process and no file."""
        for process in self._processes:
            process.pipe.close()
        end = time.monotonic() + patient(LEAVE)
        for process in self._processes:
            try:
                process.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                _kill(process.process)
        self._processes = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def kill(self) -> None:
        """End the ranks at once."""
        for process in self._processes:
            _kill(process.process)
        self.close()


def where_they_are(late: list[_Process]) -> list[RankReply]:
    """Return the answers of ranks that are late, with the stacks of their threads if those can be written."""
    for process in late:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.process.pid, signal.SIGUSR1)
    if late:
        time.sleep(0.3)
    return [RankReply(process.rank, Ending.LATE, text=process.stacks()) for process in late]


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
