"""Running one case: a fresh recorder per dtype, the device's time to fail, and a look at what was left."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import traceback
from collections.abc import Iterator
from typing import cast

from conformance.device import known_answer_probe, process_state
from conformance.framework import refusals
from conformance.framework.calls import is_clean_refusal, report_error
from conformance.framework.property import Property
from conformance.framework.recorder import MAX_MESSAGE, Recorder, StopAtFirstFailure
from conformance.model.records import ResultRow
from conformance.model.verdicts import CaseId, Failure, Kind, Result, ResultId, Verdict, seed_of
from conformance.plan import capability_requirements
from conformance.plan.plan import Case
from conformance.process_control.watchdog import Watchdog
from conformance.properties.registry import find as find_property
from conformance.results import diff
from conformance.results.journal import Journal
from conformance.results.run_state import unusable
from conformance.subjects import catalogue
from conformance.target.target import Target
from conformance.worker import failing_sample_pattern, mode_evidence
from conformance.worker.failing_sample_pattern import SampleWatch
from conformance.worker.stack_sampler import StackSampler

#: A failing result that took longer is not run once more.
REPEATED_SECONDS = 20
#: Seconds that the known-answer probe may take.
PROBE_SECONDS = 30.0

#: Exit code of a worker that replaces itself because its device is unusable.
UNUSABLE = 86


class DeviceUnusable(BaseException):
    """The known-answer probe failed: nothing that this process finds from now on means anything."""


class Executor:
    """Runs cases of one target in this process.

    Without a journal it only returns results; with one, every step is on disk before the next begins, so that
    whoever started this process can tell what it was doing when it died.
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
        #: Whether a failure runs once more, to find out if it is intermittent.
        self.repeats = repeats
        self._sampler = StackSampler() if profiles else None
        #: Whether a runner drives this process: then no user can interrupt it, and who does is the backend.
        self.driven = driven
        #: Whether a result ends at its first failure, for those who only ask whether there is one.
        self.first_only = False
        #: The last result, even if the device was unusable after it.
        self.last: Result | None = None
        self._subjects: dict[str, dict[str, catalogue.Subject]] = {}
        self._properties: dict[tuple[str, str], Property] = {}
        #: Parts of the probe that this device never could; they say nothing about its health.
        can_probe = not target.is_cpu and not target.elsewhere
        self._never = frozenset(self._probe()) if can_probe else frozenset()
        self._state = process_state.capture()

    def subject(self, kind: str, name: str) -> catalogue.Subject:
        """The subject of a planned case."""
        if kind not in self._subjects:
            self._subjects[kind] = {subject.name: subject for subject in catalogue.subjects(kind)}
        return self._subjects[kind][name]

    def property(self, kind: str, name: str) -> Property:
        """The property of a planned case."""
        if (kind, name) not in self._properties:
            self._properties[(kind, name)] = find_property(kind, name)
        return self._properties[(kind, name)]

    def run(self, case: Case) -> list[Result]:
        """All results of a case. DeviceUnusable if the probe fails after one of them."""
        try:
            return list(self.results(case))
        finally:
            if self.watchdog is not None:
                self.watchdog.rest()

    def results(self, case: Case) -> Iterator[Result]:
        """The results of a case, one by one as they are found."""
        entry = self.property(case.kind, case.property)
        subject = self.subject(case.kind, case.subject)
        for dtype in case.dtypes:
            result_id = ResultId(CaseId(case.property, case.subject), dtype)
            if self.journal is not None:
                self.journal.write("dtype", worker=self.worker, id=str(result_id), attempt=self.attempt)
            began, clock = time.time(), time.perf_counter()
            if self._sampler is not None:
                self._sampler.begin()
            result = self.last = self._check(entry, subject, result_id)
            if self._is_worth_repeating(result):
                watch = SampleWatch()
                again = self._check(entry, subject, result_id, watch)
                if again.failed_samples == result.failed_samples:
                    result.pattern = failing_sample_pattern.find(watch.features, result.failed_samples)
                if words := _other_outcome(result, again):
                    notes = [*result.notes, f"intermittent: run once more at once, {words}"]
                    result = self.last = dataclasses.replace(result, intermittent=True, notes=notes)
            if self.journal is not None:
                self.journal.write("result", worker=self.worker, result=result.to_json())
                self._journal_time(case.kind, result_id, began, time.perf_counter() - clock)
            if result.verdict is not Verdict.PASS:
                self._after(result)
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
                phases=self._sampler.end(),
            )

    def _check(
        self,
        entry: Property,
        subject: catalogue.Subject,
        result_id: ResultId,
        watch: SampleWatch | None = None,
    ) -> Result:
        seed = seed_of(subject.name, result_id.dtype)
        if self.watchdog is not None:
            self.watchdog.feed()
        recorder = Recorder(result_id, seed=seed, about_emptiness=entry.about_emptiness)
        recorder.watch = watch
        recorder.lacking = capability_requirements.undeclared_capabilities(
            self.target, entry, subject.kind, subject.name
        )
        deadly = [word for word in recorder.lacking if word in self.target.crashing]
        if deadly:
            recorder.unsupported(f"not run: {' and '.join(deadly)} ends the process, as the target file says")
            return dataclasses.replace(recorder.result(), attempt=self.attempt)
        if self.target.rehearses:
            # The device learns each call the first time, running it at once; only later ones enter its graph.
            self._rehearse(entry, subject, result_id, seed)
        trouble: str | None = None
        try:
            with mode_evidence.observed(self.target, entry, subject, recorder):
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
            trouble = _describe(error)
        except BaseException as error:
            if (
                isinstance(error, Exception)
                and not self.target.is_cpu
                and is_clean_refusal(self.target, error)
            ):
                report_error(self.target, recorder, error, label="what the property builds on")
            else:
                trouble = _describe(error)
        try:
            self.target.synchronize()
        except Exception as error:
            recorder.fail(
                Kind.EXCEPTION, f"synchronising after the case raised {type(error).__name__}: {error}"
            )
        changed = process_state.restore(self._state)
        if changed and trouble is None:
            trouble = f"property {entry.name!r} left {', '.join(changed)} changed; restore it in the property"
        result = refusals.apply_declarations(self.target, recorder.result(), recorder.lacking)
        if trouble is not None:
            harness_failure = Failure(Kind.HARNESS, trouble[:MAX_MESSAGE])
            kept = [failure for failure in result.failures if failure.kind is not Kind.VACUOUS]
            result = dataclasses.replace(
                result,
                verdict=Verdict.ERROR,
                failures=[harness_failure, *kept],
                failure_count=recorder.failure_count + 1,
            )
        result.attempt = self.attempt
        return result

    def _is_worth_repeating(self, result: Result) -> bool:
        """Return whether a second run may say more: not of refusals, slow results or lost workers."""
        kinds = {failure.kind for failure in result.failures}
        return (
            self.repeats
            and result.verdict is Verdict.FAIL
            and self.attempt == 1
            and kinds != {Kind.REFUSED}
            and result.seconds < REPEATED_SECONDS
        )

    def _rehearse(self, entry: Property, subject: catalogue.Subject, result_id: ResultId, seed: int) -> None:
        """Run a check for its effect on the device alone; whatever is wrong shows again when it counts."""
        recorder = Recorder(result_id, seed=seed, about_emptiness=entry.about_emptiness)
        with contextlib.suppress(Exception):
            process_state.seed(seed, self.target)
            entry.check(self.target, subject, recorder)
        with contextlib.suppress(Exception):
            self.target.mark_step()
            self.target.synchronize()
        process_state.restore(self._state)

    def _after(self, result: Result) -> None:
        """Ask the device for known answers after a result that did not pass."""
        name = str(result.id)
        if self.journal is not None:
            self.journal.write("probe", worker=self.worker, id=name, state="start", attempt=self.attempt)
        with self.watchdog.bound(PROBE_SECONDS) if self.watchdog is not None else contextlib.nullcontext():
            wrong = {name: text for name, text in self._probe().items() if name not in self._never}
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
            text = unusable(message)
            result.failures.append(Failure(Kind.STATE, text))
            result.failure_count += 1
            raise DeviceUnusable(text)

    def device_is_wrong(self) -> bool:
        """Ask the device for known answers; True if one is wrong that was right at the start."""
        return any(name not in self._never for name in self._probe())

    def _probe(self) -> dict[str, str]:
        return {} if self.target.elsewhere else known_answer_probe.wrong_answers(self.target)


def _other_outcome(first: Result, again: Result) -> str:
    """Return in words how a second run ended if it ended in another way, else ""."""
    if again.verdict is not Verdict.FAIL:
        return f"it ends as {again.verdict.value}"
    words = diff.changed_failure(cast("ResultRow", first.to_json()), cast("ResultRow", again.to_json()))
    return words and f"it fails in another way ({words})"


def leave(code: int = UNUSABLE) -> None:
    """End this process at once: a broken device may hang whatever would be tidied up."""
    os._exit(code)


def _describe(error: BaseException) -> str:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    first = lines[-1].strip().splitlines()[0][:300]
    return f"{first} left the property\n{''.join(lines)[-MAX_MESSAGE + 400 :]}"
