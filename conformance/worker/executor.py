"""Run one case: for each dtype, run the check with a new recorder, wait for late errors of the device, and
verify that global state is unchanged.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import traceback
from collections.abc import Callable, Iterator
from typing import cast

from conformance.device import known_answer_probe, process_state
from conformance.framework import refusals
from conformance.framework.calls import is_clean_refusal, report_error
from conformance.framework.property import Property
from conformance.framework.recorder import MAX_MESSAGE, Recorder, StopAtFirstFailure
from conformance.model.records import ResultRow
from conformance.model.verdicts import Basis, CaseId, Failure, Kind, Result, ResultId, Verdict, seed_of
from conformance.model.vocabulary import CHECKS_SKIPPED_IF_UNDECLARED
from conformance.plan import capability_requirements
from conformance.plan.plan import Case
from conformance.process_control.watchdog import Watchdog
from conformance.properties.registry import find_property as find_property
from conformance.properties.shared.dtypes import derivatives_crash
from conformance.results import diff
from conformance.results.journal import Journal
from conformance.results.run_state import unusable_device_message
from conformance.subjects import catalogue
from conformance.target.target import Target
from conformance.worker import failing_sample_pattern, mode_evidence
from conformance.worker.failing_sample_pattern import SampleFeatureRecorder
from conformance.worker.stack_sampler import StackSampler

#: A failed result that took longer than these seconds is not rerun.
REPEATED_SECONDS = 20
#: Seconds that the known-answer probe may take.
PROBE_SECONDS = 30.0

#: Exit code of a worker that replaces itself because its device is unusable.
UNUSABLE = 86


class DeviceUnusable(BaseException):
    """The known-answer probe failed, so all further results of this process would be meaningless."""


class Executor:
    """Runs cases of one target in this process.

    With a journal, the executor writes every step to disk before the next step begins, so that the runner can
    determine which result a crashed process was running.
    """

    def __init__(
        self,
        target: Target,
        *,
        journal: Journal | None = None,
        watchdog: Watchdog | None = None,
        worker: str = "main",
        attempt: int = 1,
        driven: bool = False,
        repeats: bool = False,
        profiles: bool = False,
    ) -> None:
        self.target = target
        self.journal = journal
        self.watchdog = watchdog
        self.worker = worker
        self.attempt = attempt
        #: Whether a failed result is rerun at once, to determine whether the failure is intermittent.
        self.repeats = repeats
        self._sampler = StackSampler() if profiles else None
        #: Whether a runner started this process. The user cannot interrupt such a process, so the backend
        #: must have raised any KeyboardInterrupt.
        self.driven = driven
        #: Whether a check stops at its first failure, for callers that need only one failure.
        self.first_only = False
        #: The last result, even if DeviceUnusable was raised after it.
        self.last: Result | None = None
        self._subjects: dict[str, dict[str, catalogue.Subject]] = {}
        self._properties: dict[tuple[str, str], Property] = {}
        #: ``_never`` has the parts of the known-answer probe that already fail at the start. Later failures
        #: of these parts do not show that the device broke.
        can_probe = not target.is_cpu and not target.elsewhere
        self._never = frozenset(self._wrong_probe_answers()) if can_probe else frozenset()
        self._state = process_state.capture_global_state()

    def subject(self, kind: str, name: str) -> catalogue.Subject:
        """Return the subject of a planned case."""
        if kind not in self._subjects:
            self._subjects[kind] = {subject.name: subject for subject in catalogue.subjects(kind)}
        return self._subjects[kind][name]

    def property(self, kind: str, name: str) -> Property:
        """Return the property of a planned case."""
        if (kind, name) not in self._properties:
            self._properties[(kind, name)] = find_property(kind, name)
        return self._properties[(kind, name)]

    def run(self, case: Case, is_left: Callable[[str], bool] = lambda result_id: True) -> list[Result]:
        """Return the results of a case for which ``is_left`` is true; raise DeviceUnusable if the probe fails
        after a result.
        """
        try:
            return list(self.run_results(case, is_left))
        finally:
            if self.watchdog is not None:
                self.watchdog.stop_limit()

    def run_results(
        self, case: Case, is_left: Callable[[str], bool] = lambda result_id: True
    ) -> Iterator[Result]:
        """Yield the results of a case for which ``is_left`` is true, one by one."""
        entry = self.property(case.kind, case.property)
        subject = self.subject(case.kind, case.subject)
        for dtype in case.dtypes_in_run_order():
            result_id = ResultId(CaseId(case.property, case.subject), dtype)
            if not is_left(str(result_id)):
                continue
            if self.journal is not None:
                self.journal.write("dtype", worker=self.worker, id=str(result_id), attempt=self.attempt)
            began, clock = time.time(), time.perf_counter()
            if self._sampler is not None:
                self._sampler.begin_result()
            result = self.last = self._run_check(entry, subject, result_id)
            if self._is_worth_repeating(result):
                watch = SampleFeatureRecorder()
                second_result = self._run_check(entry, subject, result_id, watch)
                if second_result.failed_samples == result.failed_samples:
                    result.pattern = failing_sample_pattern.find_pattern(
                        watch.features, result.failed_samples
                    )
                if difference := _difference_of_rerun(result, second_result):
                    notes = [*result.notes, f"intermittent: rerun at once, {difference}"]
                    result = dataclasses.replace(result, intermittent=True, notes=notes)
                    result = self.last = _with_other_failures_of_rerun(result, second_result)
            if self.journal is not None:
                self.journal.write("result", worker=self.worker, result=result.to_json())
                self._journal_time(case.kind, result_id, began, time.perf_counter() - clock)
            if result.verdict is not Verdict.PASS:
                self._probe_device_after(result)
            yield result

    def _journal_time(self, kind: str, result_id: ResultId, began: float, seconds: float) -> None:
        if self.journal is not None and self._sampler is not None:
            self.journal.write(
                "time",
                worker=self.worker,
                id=str(result_id),
                kind=kind,
                began=round(began, 4),
                seconds=round(seconds, 4),
                phases=self._sampler.end_result(),
            )

    def _run_check(
        self,
        entry: Property,
        subject: catalogue.Subject,
        result_id: ResultId,
        watch: SampleFeatureRecorder | None = None,
    ) -> Result:
        seed = seed_of(subject.name, result_id.dtype)
        if self.watchdog is not None:
            self.watchdog.start_limit()
        recorder = Recorder(result_id, seed=seed, about_emptiness=entry.about_emptiness)
        recorder.watch = watch
        recorder.basis = entry.basis
        recorder.compares_strides = self.target.capable("strides")
        recorder.lacking = capability_requirements.undeclared_capabilities(
            self.target, entry, subject.kind, subject.name
        )
        crashing = [capability for capability in recorder.lacking if capability in self.target.crashing]
        if "autograd" in entry.capabilities and derivatives_crash(self.target, result_id.dtype):
            crashing.append("conj_neg_views")
        if crashing:
            recorder.unsupported(
                f"not run: the target file declares that {' and '.join(crashing)} crashes the process"
            )
            return dataclasses.replace(recorder.result(), attempt=self.attempt)
        not_run = [
            capability for capability in recorder.lacking if capability in CHECKS_SKIPPED_IF_UNDECLARED
        ]
        if not_run:
            recorder.unsupported(f"not run: capability {' and '.join(not_run)} is not declared")
            return dataclasses.replace(recorder.result(), attempt=self.attempt)
        if self.target.rehearses:
            # Run the check once before the check that counts: the device runs the first call of each kind at
            # once, and only later calls of that kind enter its graph.
            self._rehearse(entry, subject, result_id, seed)
        suite_fault: str | None = None
        try:
            with mode_evidence.require_mode_evidence(self.target, entry, subject, recorder):
                process_state.seed(seed, self.target)
                recorder.first_only = self.first_only
                try:
                    with contextlib.suppress(StopAtFirstFailure):
                        entry.check(self.target, subject, recorder)
                finally:
                    recorder.first_only = False
        except DeviceUnusable:
            raise
        except KeyboardInterrupt as error:
            if not self.driven:
                raise
            suite_fault = _describe_suite_fault(error)
        except BaseException as error:
            if (
                isinstance(error, Exception)
                and not self.target.is_cpu
                and is_clean_refusal(self.target, error)
            ):
                report_error(self.target, recorder, error, label="a call that the property depends on")
            else:
                suite_fault = _describe_suite_fault(error)
        try:
            self.target.synchronize()
        except Exception as error:
            recorder.fail(
                Kind.EXCEPTION, f"synchronising after the case raised {type(error).__name__}: {error}"
            )
        changed = process_state.restore_global_state(self._state)
        if changed and suite_fault is None:
            suite_fault = (
                f"property {entry.name!r} left {', '.join(changed)} changed; restore it in the property"
            )
        result = refusals.apply_target_declarations(self.target, recorder.result(), recorder.lacking)
        if suite_fault is not None:
            harness_failure = Failure(Kind.HARNESS, suite_fault[:MAX_MESSAGE])
            other_failures = [failure for failure in result.failures if failure.kind is not Kind.VACUOUS]
            result = dataclasses.replace(
                result,
                verdict=Verdict.ERROR,
                failures=[harness_failure, *other_failures],
                failure_count=recorder.failure_count + 1,
            )
        result.attempt = self.attempt
        return result

    def _is_worth_repeating(self, result: Result) -> bool:
        """Return True if a failed result must be rerun at once, to see whether the failure is intermittent.

        A refusal, a slow result and a second attempt are not rerun.
        """
        kinds = {failure.kind for failure in result.failures}
        return (
            self.repeats
            and result.verdict is Verdict.FAIL
            and self.attempt == 1
            and kinds != {Kind.REFUSED}
            and result.seconds < REPEATED_SECONDS
        )

    def _rehearse(self, entry: Property, subject: catalogue.Subject, result_id: ResultId, seed: int) -> None:
        """Run a check once before the run that counts, so that the device has run calls of each kind before.
        Ignore deviations, because the next run of the check records them.
        """
        recorder = Recorder(result_id, seed=seed, about_emptiness=entry.about_emptiness)
        with contextlib.suppress(Exception):
            process_state.seed(seed, self.target)
            entry.check(self.target, subject, recorder)
        with contextlib.suppress(Exception):
            self.target.mark_step()
            self.target.synchronize()
        process_state.restore_global_state(self._state)

    def _probe_device_after(self, result: Result) -> None:
        """Run the known-answer probe after a result that did not pass; raise DeviceUnusable if it fails."""
        name = str(result.id)
        if self.journal is not None:
            self.journal.write("probe", worker=self.worker, id=name, state="start", attempt=self.attempt)
        with (
            self.watchdog.limit_seconds(PROBE_SECONDS)
            if self.watchdog is not None
            else contextlib.nullcontext()
        ):
            wrong = {
                name: text for name, text in self._wrong_probe_answers().items() if name not in self._never
            }
        message = "; ".join(wrong.values())
        if self.journal is not None:
            self.journal.write(
                "probe",
                worker=self.worker,
                id=name,
                state="failed" if wrong else "ok",
                attempt=self.attempt,
                message=message,
            )
        if wrong:
            text = unusable_device_message(message)
            result.failures.append(Failure(Kind.STATE, text))
            result.failure_count += 1
            raise DeviceUnusable(text)

    def probe_finds_new_errors(self) -> bool:
        """Return True if the known-answer probe finds an error that it did not find at the start."""
        return any(name not in self._never for name in self._wrong_probe_answers())

    def _wrong_probe_answers(self) -> dict[str, str]:
        return {} if self.target.elsewhere else known_answer_probe.wrong_answers(self.target)


def _with_other_failures_of_rerun(first: Result, second: Result) -> Result:
    """Return the first result. If its failures all have basis parity, add the failures of the rerun with a
    different basis. Otherwise the verdict ``parity`` would hide these failures.
    """
    if any(failure.basis is not Basis.PARITY for failure in first.failures):
        return first
    added = [failure for failure in second.failures if failure.basis is not Basis.PARITY]
    return dataclasses.replace(
        first, failures=[*added, *first.failures], failure_count=first.failure_count + len(added)
    )


def _difference_of_rerun(first: Result, second: Result) -> str:
    """Return how the second run of a result differs from the first, or an empty text."""
    if second.verdict is not Verdict.FAIL:
        return f"it ends as {second.verdict.value}"
    difference = diff.changed_failure(cast("ResultRow", first.to_json()), cast("ResultRow", second.to_json()))
    return difference and f"it fails differently ({difference})"


def exit_at_once(code: int = UNUSABLE) -> None:
    """Exit this process at once, because a broken device may hang any cleanup."""
    os._exit(code)


def _describe_suite_fault(error: BaseException) -> str:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    first = lines[-1].strip().splitlines()[0][:300]
    return f"{first} left the property\n{''.join(lines)[-MAX_MESSAGE + 400 :]}"
