"""Run rounds: each round is one pytest process over part of a plan, which this module starts and watches."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.model.verdicts import Failure, Kind, Result, ResultId, Verdict, seed_of
from conformance.plan.plan import Plan
from conformance.plan.run_request import RunRequest
from conformance.process_control import memory_limit, supervisor
from conformance.process_control.child import Child, EndKind
from conformance.process_control.watchdog import timed_out_and_traceback
from conformance.results.journal import Journal, JournalTail
from conformance.results.run_state import RunState, Worker
from conformance.runner import child_environment
from conformance.runner.prestarted_worker import PrestartedWorker
from conformance.worker import continued_cases

#: After this number of lost workers in a row without a passing result in between, the run stops unless a
#: result that passed before passes again.
MAX_LOSSES = 20

#: A round is treated as hung if the journal gets no event for the time limit of a result plus these seconds.
_SILENCE = 60.0

#: Maximum number of additional workers. An additional worker runs results while another worker waits for the
#: time limit of its result.
_ADDITIONAL_WORKERS = 16


class TooManyLostWorkers(Exception):
    """Too many workers in a row were lost, and no result passes any more."""


@dataclasses.dataclass
class Rounds:
    """Runs the rounds of one leg. It applies the events of the journal to ``run_state``."""

    options: RunRequest
    mode: str
    folder: Path
    journal: Journal
    tail: JournalTail
    run_state: RunState
    progress: Callable[[], None]
    number: int = 0
    #: A prestarted worker. The first round uses or stops it.
    warm: PrestartedWorker | None = None

    def run(
        self,
        plan: Plan,
        *,
        workers: int,
        attempt: int,
        continue_after_losses: bool = False,
        alone: bool = False,
    ) -> None:
        """Run one round over a plan, and record a result for every worker that was lost.

        A ``continue_after_losses`` round continues after any number of lost workers, because its results are
        likely to end their processes. A round that runs ``alone`` has no additional workers.

        Raises:
            TooManyLostWorkers: too many workers in a row were lost, and no result passes any more.
            KeyboardInterrupt: the user stopped the run. All processes have ended.
        """
        self.number += 1
        continued_cases.remove_marks(self.folder)  # a killed runner may have left marks of continued cases
        self.journal.write("round", number=self.number, attempt=attempt, workers=workers, results=len(plan))
        file = self.folder / f"plan-{self.number}.json"
        plan.write(file)
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        log = logs / f"round-{self.number}.txt"
        if self.warm is not None and workers == 1:
            arguments = self._pytest_arguments(file, attempt)
        else:
            self._close_prestarted_worker()
            arguments = [
                *self._pytest_arguments(file, attempt),
                *self._xdist_arguments(workers, 0 if alone else self._max_additional_workers),
            ]
        child, warm = self._start_pytest(arguments, log)
        try:
            with child:
                end = supervisor.wait_for_end(
                    child,
                    silence=self.options.timeout + _SILENCE,
                    heartbeat=functools.partial(self._heartbeat, continue_after_losses=continue_after_losses),
                )
        finally:
            file.unlink(missing_ok=True)
            continued_cases.remove_marks(self.folder)
            if warm is not None:
                warm.copy_log(log)
            self.read_events(final=True)
        if end.code == pytest.ExitCode.INTERNAL_ERROR:
            self.journal.write("problem", message=f"pytest failed in round {self.number}; see {log}")
        self._record_lost(stalled=end.how is EndKind.STALLED)

    def _close_prestarted_worker(self) -> None:
        if self.warm is not None:
            self.warm.stop_and_delete_log()
            self.warm = None

    def _start_pytest(self, arguments: list[str], log: Path) -> tuple[Child, PrestartedWorker | None]:
        """Start pytest and return its process, and the prestarted worker if pytest runs in it."""
        environment = child_environment.environment_variables(self.options, self.mode)
        warm, self.warm = self.warm, None
        if warm is not None:
            child = warm.start_pytest(arguments, environment)
            if child is not None:
                return child, warm
            warm.stop_and_delete_log()
        return Child.exec([sys.executable, "-m", "pytest", *arguments], environment, log=log), None

    @property
    def _max_additional_workers(self) -> int:
        """The maximum number of additional workers. It is 0 in a run with one worker, because two
        processes may not be able to use the device.
        """
        if self.options.worker_count(self.mode) == 1:
            return 0
        return min(_ADDITIONAL_WORKERS, memory_limit.max_waiting_workers())

    @staticmethod
    def _xdist_arguments(workers: int, additional: int) -> list[str]:
        """Return the arguments that run the cases in worker processes."""
        command = ["-p", "xdist.plugin", "-n", str(workers), "--max-worker-restart", "1000"]
        return [*command, "--conformance-additional-workers", str(additional)]

    def _pytest_arguments(self, plan: Path, attempt: int) -> list[str]:
        command = ["-q", "-c", os.devnull, "--rootdir", str(self.folder), "--noconftest"]
        for plugin in ("no:cacheprovider", "no:warnings", "no:faulthandler", "conformance.plugin"):
            command += ["-p", plugin]
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

    def _heartbeat(self, *, continue_after_losses: bool) -> bool:
        """Return whether the journal has new events; raise TooManyLostWorkers if the run must stop."""
        events = self.read_events()
        # Every worker starts once without a loss, also an additional worker.
        started = MAX_LOSSES + self.options.workers + self._max_additional_workers
        lost_too_many = self.run_state.starts_without_pass > started
        if lost_too_many and not continue_after_losses and not self._does_passed_result_pass_again():
            raise TooManyLostWorkers(
                f"The run was stopped: {MAX_LOSSES} workers in a row ended without a passing result, and the "
                "last result that passed does not pass again. Run `conformance doctor`."
            )
        self.progress()
        return events > 0

    def _does_passed_result_pass_again(self) -> bool:
        """Rerun the last result that passed in a separate process. Return True if it passes again: the device
        then works, and only the current results end their processes.
        """
        passed = self.run_state.last_passed
        if passed is None or self.run_state.plan is None:
            return False
        file = self.folder / "plan-passed.json"
        Plan.from_json(self.run_state.plan).with_results([passed]).write(file)
        attempt = self.run_state.attempts[passed][-1].get("attempt", 1) + 1
        log = self.folder / "logs" / "passed-result.txt"
        try:
            child, _ = self._start_pytest(self._pytest_arguments(file, attempt), log)
            with child:
                # Events of other workers do not show progress of this process, so it gets a time limit
                # instead.
                supervisor.wait_for_end(child, limit=self.options.timeout + _SILENCE)
        finally:
            file.unlink(missing_ok=True)
            self.read_events()
        passes = any(
            row.get("attempt", 1) == attempt and row["verdict"] == Verdict.PASS.value
            for row in self.run_state.attempts[passed]
        )
        if passes:
            self.run_state.starts_without_pass = 0
        return passes

    def read_events(self, *, final: bool = False) -> int:
        """Apply the new events of the journal to the run state, and return the number of new events."""
        count = 0
        for event in self.tail.read(final=final):
            self.run_state.apply(event)
            count += 1
        return count

    def record_results_that_do_not_run(self, pending: Plan) -> None:
        """Record each pending result of a confirmed group as lost. These results do not run.

        A group (a subject, a behaviour, or a property in a dtype) is confirmed if it always ends its process.
        """
        confirmed = self.run_state.confirmed_groups()
        if not confirmed:
            return
        recorded = False
        for result_id in pending.result_ids():
            groups = [group for group in self.run_state.loss_groups_of(result_id) if group in confirmed]
            if not groups:
                continue
            group = groups[0]
            recorded = True
            first = confirmed[group]
            if group.property and group.subject:
                reason = (
                    f"{group.property}/{group.subject} ended its process in several dtypes, also in {first}"
                )
            elif group.property:
                reason = f"{group.property} ended its process in all results of a sample, such as {first}"
            else:
                in_dtype = f" in {group.dtype}" if group.dtype else ""
                reason = f"{group.subject} ended its process repeatedly{in_dtype}, also in {first}"
            self.record_result_that_does_not_run(ResultId.parse(result_id), first, reason)
        if recorded:
            self.journal.write("worker-end", worker="runner", reason="no process ran these results")
        self.read_events()

    def record_result_that_does_not_run(
        self, result_id: ResultId, first: str, reason: str, attempt: int = 1
    ) -> None:
        """Record a result as lost without running it, because the result ``first`` was lost."""
        verdict = Verdict(self.run_state.attempts[first][0]["verdict"])
        kind = Kind.TIMEOUT if verdict is Verdict.TIMEOUT else Kind.CRASH
        result = Result(
            id=result_id,
            verdict=verdict,
            failure_count=1,
            failures=[Failure(kind, f"not run: {reason}")],
            seed=seed_of(result_id.case.subject, result_id.dtype, self.options.seed),
            blocked_by=first,
            attempt=attempt,
        )
        self.journal.write("result", worker="runner", result=result.to_json())

    def _record_lost(self, *, stalled: bool) -> None:
        """Record a ``crash`` or ``timeout`` result for each lost worker."""
        for worker in self.run_state.unrecorded_lost_workers():
            self.journal.write("lost", worker=worker.name)
            owed = self._result_of_lost_worker(worker, stalled=stalled)
            if owed is not None:
                self.journal.write("result", worker=worker.name, result=owed.to_json())
                if self.options.profile:
                    self._journal_time(worker, owed)
        self.read_events()

    def _journal_time(self, worker: Worker, owed: Result) -> None:
        """Write the duration of a lost worker's result to the journal: the time limit, or 0 after a crash."""
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

    def _result_of_lost_worker(self, worker: Worker, *, stalled: bool) -> Result | None:
        """Return a failed result for the result that a lost worker ran last, or None if it ran no result."""
        timed_out, traceback = timed_out_and_traceback(self.folder / "tracebacks" / f"{worker.name}.txt")
        if worker.probing is not None:
            return None
        result_id = worker.running_result or worker.last
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
                message += ", and the watchdog did not end the process"
        else:
            verdict, kind = Verdict.CRASH, Kind.CRASH
            when = "" if worker.running_result else " after this result, before the next"
            signal_name = traceback.partition("\n")[0]
            how = f": {signal_name}" if signal_name else " without a traceback, as after os._exit or SIGKILL"
            message = f"the process ended{when}{how}"
        parsed = ResultId.parse(result_id)
        return Result(
            id=parsed,
            verdict=verdict,
            failure_count=1,
            failures=[Failure(kind, f"{message}\n{traceback}".rstrip())],
            seconds=self.options.timeout if verdict is Verdict.TIMEOUT else 0.0,
            seed=seed_of(parsed.case.subject, parsed.dtype, self.options.seed),
            attempt=worker.attempt,
        )
