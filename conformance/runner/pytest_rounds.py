"""One round: a pytest process over part of a plan, watched from outside until it and its workers are gone."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from conformance.model.verdicts import Failure, Kind, Result, ResultId, Verdict, seed_of
from conformance.plan.plan import Plan
from conformance.plan.run_request import Request
from conformance.process_control import supervisor
from conformance.process_control.child import Child, How
from conformance.process_control.watchdog import last_words
from conformance.results.journal import Journal, Tail
from conformance.results.run_state import RunState, Worker
from conformance.runner import child_environment
from conformance.runner.prestarted_worker import WarmWorker

#: Worker losses in a row, without one passing result between them, after which a run is given up.
MAX_LOSSES = 20

#: Seconds beyond the limit of a result without any event after which a round counts as hung.
_SILENCE = 60.0


class TooManyLostWorkers(Exception):
    """The target keeps losing its workers."""


@dataclasses.dataclass
class Rounds:
    """Runs rounds for one leg and keeps its run_state up to date."""

    options: Request
    mode: str
    folder: Path
    journal: Journal
    tail: Tail
    run_state: RunState
    progress: Callable[[], None]
    number: int = 0
    #: A process that has begun to import; the first round takes it.
    warm: WarmWorker | None = None

    def run(self, plan: Plan, *, workers: int, attempt: int, patient: bool = False) -> None:
        """Run a plan once. Every result that was lost with its worker is in the run_state afterwards.

        A ``patient`` round goes on however many workers it loses: what it holds was lost before.

        KeyboardInterrupt passes through after all processes have ended. TooManyLostWorkers is raised if too
        many workers in a row end without a passing result.
        """
        self.number += 1
        self.journal.write("round", number=self.number, attempt=attempt, workers=workers, results=len(plan))
        file = self.folder / f"plan-{self.number}.json"
        plan.write(file)
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        log = logs / f"round-{self.number}.txt"
        child, warm = self._start(self._arguments(file, workers, attempt), workers, log)
        try:
            with child:
                end = supervisor.watch(
                    child,
                    silence=self.options.timeout + _SILENCE,
                    heartbeat=functools.partial(self._heartbeat, patient=patient),
                )
        finally:
            file.unlink(missing_ok=True)
            if warm is not None:
                warm.copy_log(log)
            self.read_events(final=True)
        self._record_lost(stalled=end.how is How.STALLED)

    def _start(self, arguments: list[str], workers: int, log: Path) -> tuple[Child, WarmWorker | None]:
        """Start pytest; in the prestarted worker, which is then returned too, if one worker is enough."""
        environment = child_environment.variables(self.options, self.mode)
        warm, self.warm = self.warm, None
        if warm is not None and workers == 1:
            child = warm.run(arguments, environment)
            if child is not None:
                return child, warm
        if warm is not None:
            warm.close()
        return Child.exec([sys.executable, "-m", "pytest", *arguments], environment, log=log), None

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

    def _heartbeat(self, *, patient: bool) -> bool:
        """Return whether the journal has new events; TooManyLostWorkers if the round should be stopped."""
        events = self.read_events()
        if self.run_state.starts_without_pass > MAX_LOSSES + self.options.workers and not patient:
            raise TooManyLostWorkers(
                f"The run was stopped: {MAX_LOSSES} workers in a row ended without a passing result. "
                "Run `conformance doctor`."
            )
        self.progress()
        return events > 0

    def read_events(self, *, final: bool = False) -> int:
        """Take the new events of the journal; their number."""
        count = 0
        for event in self.tail.read(final=final):
            self.run_state.apply(event)
            count += 1
        return count

    def _record_lost(self, *, stalled: bool) -> None:
        """Record a `crash` or `timeout` result for each lost worker."""
        for worker in self.run_state.dead():
            self.journal.write("lost", worker=worker.name)
            owed = self._owed(worker, stalled=stalled)
            if owed is not None:
                self.journal.write("result", worker=worker.name, result=owed.to_json())
                if self.options.profile:
                    self._journal_time(worker, owed)
        self.read_events()

    def _journal_time(self, worker: Worker, owed: Result) -> None:
        """Write the time of a result that was lost with its worker: its limit, or none if it crashed."""
        cases = [] if self.run_state.plan is None else self.run_state.plan["cases"]
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

    def _owed(self, worker: Worker, *, stalled: bool) -> Result | None:
        timed_out, traceback = last_words(self.folder / "tracebacks" / f"{worker.name}.txt")
        if worker.probing is not None:
            return None
        result_id = worker.open or worker.last
        if result_id is None:
            self.journal.write(
                "problem", message=f"a worker ended before its first case; see {self.folder / 'logs'}"
            )
            return None
        timed_out = timed_out and not stalled
        if timed_out or stalled:
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
