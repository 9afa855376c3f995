"""One round: a pytest process over part of a plan, watched from outside until it and its workers are gone."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from conformance.model.verdicts import Failure, Kind, Result, ResultId, Verdict, seed_of
from conformance.plan.plan import Plan
from conformance.plan.run_request import Request
from conformance.process_control.watchdog import last_words
from conformance.results.journal import Journal, Tail
from conformance.results.run_state import Ledger, Worker
from conformance.runner import child_environment
from conformance.runner.prestarted_worker import WarmWorker

#: Worker losses in a row, without one passing result between them, after which a run is given up.
MAX_LOSSES = 20

#: Seconds beyond the limit of a result without any event after which a round counts as hung.
_SILENCE = 60.0


class TooManyLostWorkers(Exception):
    """The target keeps losing its workers; the message says how often."""


@dataclasses.dataclass
class Rounds:
    """Runs rounds for one leg and keeps its ledger up to date."""

    options: Request
    mode: str
    folder: Path
    journal: Journal
    tail: Tail
    ledger: Ledger
    progress: Callable[[], None]
    number: int = 0
    #: A process that has begun to import; the first round takes it.
    warm: WarmWorker | None = None

    def run(self, plan: Plan, *, workers: int, attempt: int, patient: bool = False) -> None:
        """Run a plan once. Every result that was lost with its worker is in the ledger afterwards.

        A ``patient`` round goes on however many workers it loses: what it holds was lost before.

        KeyboardInterrupt passes through after all processes have ended. GivenUp if the target loses one
        worker after the other.
        """
        self.number += 1
        self.journal.write("round", number=self.number, attempt=attempt, workers=workers, results=len(plan))
        file = self.folder / f"plan-{self.number}.json"
        plan.write(file)
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        log = logs / f"round-{self.number}.txt"
        process, warm = self._start(self._arguments(file, workers, attempt), workers, log)
        hung = False
        try:
            hung = self._watch(process, patient=patient)
        except BaseException:
            end(process)
            self.absorb(final=True)
            raise
        finally:
            file.unlink(missing_ok=True)
            end(process)
            if warm is not None:
                warm.copy_log(log)
        self.absorb(final=True)
        self._bury(hung)

    def _start(
        self, arguments: list[str], workers: int, log: Path
    ) -> tuple[subprocess.Popen[bytes], WarmWorker | None]:
        """Start pytest; in the warm worker, which is then returned too, if there is one and one will do."""
        environment = child_environment.variables(self.options, self.mode)
        warm, self.warm = self.warm, None
        if warm is not None and workers == 1:
            process = warm.run(arguments, environment)
            if process is not None:
                return process, warm
        if warm is not None:
            warm.close()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        return process, None

    def _arguments(self, plan: Path, workers: int, attempt: int) -> list[str]:
        command = ["-q", "-c", os.devnull, "--rootdir", str(self.folder), "--noconftest"]
        for plugin in ("no:cacheprovider", "no:warnings", "no:faulthandler", "conformance.plugin"):
            command += ["-p", plugin]
        if workers > 1:
            command += ["-p", "xdist.plugin", "-n", str(workers), "--max-worker-restart", "1000"]
        command += ["--capture=no", "--pyargs", "conformance.pytest_modules", *self.options.extra]
        command += ["--conformance-target", self.options.target_argument, "--conformance-mode", self.mode]
        command += ["--conformance-samples", self.options.samples, "--conformance-output", str(self.folder)]
        command += ["--conformance-only", str(plan), "--conformance-timeout", str(self.options.timeout)]
        command += ["--conformance-attempt", str(attempt), "--conformance-quiet"]
        if self.options.profile:
            command.append("--conformance-profile")
        for module in self.options.extra:
            command += ["--conformance-extra", module]
        return command

    def _watch(self, process: subprocess.Popen[bytes], *, patient: bool) -> bool:
        """Wait for the process; True if it had to be killed because nothing happened any more."""
        heard = time.monotonic()
        while process.poll() is None:
            if self.absorb():
                heard = time.monotonic()
            elif time.monotonic() - heard > self.options.timeout + _SILENCE:
                return True
            if self.ledger.starts_without_pass > MAX_LOSSES + self.options.workers and not patient:
                raise TooManyLostWorkers(
                    f"{MAX_LOSSES} workers were lost in a row without one passing result between them"
                )
            self.progress()
            time.sleep(0.1)
        return False

    def absorb(self, *, final: bool = False) -> int:
        """Take the new events of the journal; their number."""
        count = 0
        for event in self.tail.read(final=final):
            self.ledger.apply(event)
            count += 1
        return count

    def _bury(self, hung: bool) -> None:
        """Give every worker that vanished the result that it owes."""
        for worker in self.ledger.dead():
            self.journal.write("lost", worker=worker.name)
            owed = self._owed(worker, hung)
            if owed is not None:
                self.journal.write("result", worker=worker.name, result=owed.to_json())
                if self.options.profile:
                    self._journal_time(worker, owed)
        self.absorb()

    def _journal_time(self, worker: Worker, owed: Result) -> None:
        """Write the time of a result that was lost with its worker: its limit, or none if it crashed."""
        cases = [] if self.ledger.plan is None else self.ledger.plan["cases"]
        kinds = {(name, subject): kind for kind, name, subject, _ in cases}
        self.journal.write(
            "time",
            worker=worker.name,
            id=str(owed.id),
            kind=kinds.get((owed.id.case.property, owed.id.case.subject), "unknown"),
            began=round(time.time() - owed.seconds, 4),
            seconds=round(owed.seconds, 4),
            phases={},
        )

    def _owed(self, worker: Worker, hung: bool) -> Result | None:
        timed_out, traceback = last_words(self.folder / "tracebacks" / f"{worker.name}.txt")
        if worker.probing is not None:
            return None
        result_id = worker.open or worker.last
        if result_id is None:
            self.journal.write(
                "problem", message=f"a worker ended before its first case; see {self.folder / 'logs'}"
            )
            return None
        timed_out = timed_out and not hung
        if timed_out or hung:
            verdict, kind = Verdict.TIMEOUT, Kind.TIMEOUT
            message = f"took longer than {self.options.timeout:g} s"
            if not timed_out:
                message += " and did not end itself"
        else:
            verdict, kind = Verdict.CRASH, Kind.CRASH
            when = "" if worker.open else " after this result, before the next"
            signal_name = traceback.partition("\n")[0]
            how = f": {signal_name}" if signal_name else " without a trace, as os._exit and SIGKILL do"
            message = f"the process ended{when}{how}"
        parsed = ResultId.parse(result_id)
        return Result(
            id=parsed,
            verdict=verdict,
            failure_count=1,
            failures=[Failure(kind, f"{message}\n{traceback}".rstrip())],
            seconds=self.options.timeout if verdict is Verdict.TIMEOUT else 0.0,
            seed=seed_of(parsed.case.subject, parsed.dtype),
            attempt=worker.attempt,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything in its group, also what it left behind."""
    for number, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
