"""The run state: the state of each result and worker, rebuilt from the journal's events."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import cast

from conformance.model import records
from conformance.model.records import AttemptRow, Event, FailureRow
from conformance.model.verdicts import Kind, Verdict
from conformance.model.vocabulary import AREA_KINDS

#: Verdicts of a failed attempt.
BAD = frozenset(
    verdict.value
    for verdict in (Verdict.CRASH, Verdict.TIMEOUT, Verdict.ERROR, Verdict.FAIL, Verdict.VACUOUS)
)
#: Events that name a worker.
_OfWorker = (
    records.WorkerEndEvent | records.DtypeEvent | records.ResultEvent | records.ProbeEvent | records.LostEvent
)
_LOST = (Verdict.CRASH.value, Verdict.TIMEOUT.value)
#: After this number of lost results, the runner retries one of them before it runs more of the subject.
_LOSSES_IN_A_ROW, _LOSSES = 2, 5
#: After results of a property in a dtype were lost for this number of subjects in a row, the runner runs a
#: sample of its other results in this dtype before it runs more of them.
LOST_SUBJECTS_IN_A_ROW = 5


#: The name of a property, and a dtype.
PropertyInDtype = tuple[str, str]


def unusable_device_message(message: str) -> str:
    """Return the failure message for a result that left the device unusable. ``message`` names the cause."""
    return f"left the device unusable: {message}"


@dataclasses.dataclass
class Worker:
    """The state of a worker: its current result, its last finished result, and its own end event."""

    name: str
    open: str | None = None
    attempt: int = 1
    last: str | None = None
    probing: str | None = None
    ended: str | None = None
    recorded_as_lost: bool = False


class RunState:
    """The state of a run, updated by events in order. All attempts at a result are kept."""

    def __init__(self) -> None:
        self.attempts: dict[str, list[AttemptRow]] = {}
        self.workers: dict[str, Worker] = {}
        #: None until the event ``run`` was applied.
        self.header: records.Header | None = None
        self.plan: records.PlanTable | None = None
        self.end: records.EndEvent | None = None
        self.oracle: dict[tuple[str, str, int], str] = {}
        self.oracle_check: records.OracleCheck | None = None
        self.problems: list[str] = []
        self.interrupted = False
        #: Number of workers that started since a result last passed, and the id of that result.
        self.starts_without_pass = 0
        self.last_passed: str | None = None
        #: Total seconds of all finished runs in this journal.
        self.seconds = 0.0
        self.rounds = 0
        #: Results whose known-answer probe was running when a run was killed.
        self.unprobed: set[str] = set()
        #: The results of the sample of each property and dtype that was suspected of ending its process.
        self._samples: dict[PropertyInDtype, list[str]] = {}
        #: The order in which the results began, by id.
        self._order: dict[str, int] = {}
        self._areas: set[str] | None = None

    def apply(self, event: Event) -> None:
        """Apply one event. Unknown kinds are ignored; a malformed event is recorded as a problem."""
        try:
            self._apply_by_kind(event)
        except (KeyError, TypeError, ValueError) as error:
            self.problems.append(f"event {event['event']!r} of the journal is malformed: {error!r}")

    def _apply_by_kind(self, event: Event) -> None:
        match event["event"]:
            case "run":
                self._on_run(event)
            case "plan":
                self.plan = event
            case "round":
                self.rounds = max(self.rounds, int(event["number"]))
            case "resume":
                self._on_resume()
            case "worker":
                self._on_worker(event)
            case "worker-end":
                self._worker(event).ended = event.get("reason", "done")
            case "dtype":
                worker = self._worker(event)
                worker.open, worker.attempt = event["id"], event.get("attempt", 1)
                self._order.setdefault(event["id"], len(self._order))
            case "result":
                self._on_result(event)
            case "probe":
                self._on_probe(event)
            case "lost":
                self._on_lost(event)
            case "sample":
                self._samples[(event["property"], event["dtype"])] = list(event["results"])
            case "oracle":
                self._on_oracle(event)
            case "oracle-check":
                self.oracle_check = event
            case "problem":
                self.problems.append(event["message"])
            case "interrupted":
                self.interrupted = True
            case "end":
                self.end = event
                self.seconds += float(event.get("seconds", 0.0))

    def _worker(self, event: _OfWorker) -> Worker:
        name = str(event.get("worker", "?"))
        return self.workers.setdefault(name, Worker(name))

    def _on_run(self, event: records.RunEvent) -> None:
        fields = {key: value for key, value in event.items() if key != "event"}
        self.header = cast("records.Header", fields) if fields else None

    def _on_resume(self) -> None:
        """Reset the state for a resumed run.

        The workers of the earlier run were killed with it. Their unfinished results are therefore not
        failures.
        """
        for worker in self.workers.values():
            if worker.ended is None and not worker.recorded_as_lost:
                worker.recorded_as_lost = True
                if worker.probing is not None:
                    self.unprobed.add(worker.probing)
        self.end, self.interrupted, self.oracle_check = None, False, None
        self.starts_without_pass = 0

    def _on_worker(self, event: records.WorkerEvent) -> None:
        # Replace a worker of the same name: a resumed run may reuse a process id, which is part of the name.
        name = str(event.get("worker", "?"))
        self.workers[name] = Worker(name)
        self.starts_without_pass += 1

    def _on_result(self, event: records.ResultEvent) -> None:
        row = event["result"]
        worker = self._worker(event)
        worker.open, worker.last = None, row["id"]
        self.attempts.setdefault(row["id"], []).append(row)
        self.unprobed.discard(row["id"])
        if row["verdict"] == Verdict.PASS.value:
            self.starts_without_pass = 0
            self.last_passed = row["id"]

    def _on_probe(self, event: records.ProbeEvent) -> None:
        worker = self._worker(event)
        state = event["state"]
        worker.probing = event["id"] if state == "start" else None
        if state == "failed":
            self._blame_for_unusable_device(event["id"], event.get("message", ""))

    def _blame_for_unusable_device(self, result_id: str, message: str) -> None:
        row = self.attempts[result_id][-1]
        row.setdefault("failures", []).append(
            {"kind": Kind.STATE.value, "message": unusable_device_message(message)}
        )
        row["failure_count"] = row.get("failure_count", 0) + 1
        if row["verdict"] not in BAD or row["verdict"] == Verdict.VACUOUS.value:
            row["verdict"] = Verdict.FAIL.value

    def _on_oracle(self, event: records.OracleEvent) -> None:
        operator = event["operator"] if "operator" in event else event["op"]
        self.oracle[(operator, event["dtype"], event["index"])] = event["digest"]

    def _on_lost(self, event: records.LostEvent) -> None:
        worker = self._worker(event)
        worker.recorded_as_lost = True
        if worker.probing is not None:
            self._blame_for_unusable_device(
                worker.probing, "the process ended while the known-answer probe ran"
            )
            worker.probing = None

    def unrecorded_lost_workers(self) -> list[Worker]:
        """Return the workers without an end event that are not yet recorded as lost.

        Call this method only after all worker processes exited.
        """
        return [
            worker for worker in self.workers.values() if worker.ended is None and not worker.recorded_as_lost
        ]

    def last_attempt(self) -> int:
        """Return the highest attempt number of any result."""
        return max((row.get("attempt", 1) for rows in self.attempts.values() for row in rows), default=0)

    def has_attempt(self, result_id: str, attempt: int) -> bool:
        """Return True if a result has an attempt of this number."""
        return any(row.get("attempt", 1) == attempt for row in self.attempts.get(result_id, ()))

    def _subject_of(self, result_id: str) -> str:
        """Return the subject of a result if it is one operator or module, and the id of the result if the
        subject is a whole area.
        """
        subject = result_id.partition("/")[2].rpartition("@")[0]
        if self._areas is None:
            cases = [] if self.plan is None else self.plan["cases"]
            self._areas = {name for kind, _, name, _ in cases if kind in AREA_KINDS}
        return result_id if subject in self._areas else subject

    def results_to_retry(self) -> list[str]:
        """Return the ids of the results to retry: their only attempt lost its worker, or left the device
        unusable.

        If a retried result of a subject lost its worker again, the subject is confirmed to end its process,
        and its other results are not retried. Neither are those of a property and dtype that a sample
        confirmed.
        """
        confirmed = self._subjects_lost_again()
        confirmed_properties = self.properties_that_end_their_process()
        return [
            result_id
            for result_id, rows in self.attempts.items()
            if rows[-1].get("attempt", 1) == 1
            and "blocked_by" not in rows[-1]
            and (
                (
                    rows[-1]["verdict"] in _LOST
                    and self._subject_of(result_id) not in confirmed
                    and property_in_dtype(result_id) not in confirmed_properties
                )
                or _was_blamed_for_unusable_device(rows[-1])
            )
        ]

    def results_to_retry_at_once(self) -> list[str]:
        """Return, for each suspected subject, its first lost result that was not retried yet.

        A subject is suspected after ``_LOSSES_IN_A_ROW`` lost results with no other result between, or
        ``_LOSSES`` in all. A subject whose retried result was lost again is confirmed and needs no more.
        """
        confirmed = self._subjects_lost_again()
        lost: dict[str, list[str]] = {}
        in_a_row: dict[str, int] = {}
        suspected = set()
        for result_id, rows in self.attempts.items():
            subject = self._subject_of(result_id)
            if rows[0]["verdict"] not in _LOST:
                in_a_row[subject] = 0
                continue
            lost.setdefault(subject, []).append(result_id)
            in_a_row[subject] = in_a_row.get(subject, 0) + 1
            if in_a_row[subject] >= _LOSSES_IN_A_ROW or len(lost[subject]) >= _LOSSES:
                suspected.add(subject)
        not_retried = (
            next((name for name in lost[subject] if len(self.attempts[name]) == 1), None)
            for subject in suspected - set(confirmed)
        )
        return [name for name in not_retried if name is not None]

    def subjects_that_end_their_process(self) -> dict[str, str]:
        """Return each subject that lost two results or more and lost one of them again when it was retried
        alone, with the id of that result.
        """
        losses = collections.Counter(
            self._subject_of(name) for name, rows in self.attempts.items() if rows[0]["verdict"] in _LOST
        )
        return {
            subject: name
            for subject, name in self._subjects_lost_again().items()
            if losses[subject] >= _LOSSES_IN_A_ROW
        }

    def properties_to_sample(self) -> list[PropertyInDtype]:
        """Return each property and dtype whose results were lost for ``LOST_SUBJECTS_IN_A_ROW`` subjects in a
        row, and which no sample has confirmed yet.
        """
        lost: dict[PropertyInDtype, set[str]] = collections.defaultdict(set)
        for result_id in sorted(self.attempts, key=lambda name: self._order.get(name, -1)):
            subject = self._subject_of(result_id)
            if self.attempts[result_id][0]["verdict"] not in _LOST:
                lost.pop(property_in_dtype(result_id), None)
            elif subject != result_id:
                lost[property_in_dtype(result_id)].add(subject)
        confirmed = self.properties_that_end_their_process()
        return [
            key
            for key, subjects in lost.items()
            if len(subjects) >= LOST_SUBJECTS_IN_A_ROW and key not in confirmed
        ]

    def properties_that_end_their_process(self) -> dict[PropertyInDtype, str]:
        """Return each property and dtype whose sampled results were all lost, with the id of the first."""
        return {
            key: results[0]
            for key, results in self._samples.items()
            if all(self._was_lost_at_first(result) for result in results)
        }

    def _was_lost_at_first(self, result_id: str) -> bool:
        rows = self.attempts.get(result_id)
        return rows is not None and rows[0]["verdict"] in _LOST

    def _subjects_lost_again(self) -> dict[str, str]:
        """Return each subject with a result that was lost twice, and the id of the first such result."""
        lost_again: dict[str, str] = {}
        for result_id, rows in self.attempts.items():
            if rows[-1].get("attempt", 1) > 1 and rows[-1]["verdict"] in _LOST:
                lost_again.setdefault(self._subject_of(result_id), result_id)
        return lost_again


def property_in_dtype(result_id: str) -> PropertyInDtype:
    """Return the property and the dtype of a result."""
    return result_id.partition("/")[0], result_id.rpartition("@")[2]


def _was_blamed_for_unusable_device(row: AttemptRow) -> bool:
    return any(failure["kind"] == Kind.STATE.value for failure in row.get("failures", ()))


def final_attempt(rows: Sequence[AttemptRow]) -> tuple[str, AttemptRow]:
    """Return the verdict of a result, computed from all its attempts, and the attempt with that verdict.

    Expectations are not applied. If the last attempt passes after a failed attempt, the verdict is ``flaky``.
    If the last attempt fails, the verdict is the worst verdict of all attempts.

    If an attempt left the device unusable, the worker recorded a failure of kind ``state`` for it. Such an
    attempt is ignored if the last attempt, in a new process, fails and leaves the device usable: an earlier
    case may have caused the unusable device. The returned attempt then gets an additional failure of kind
    ``state``, so that an expectation of a different kind cannot excuse the result.
    """
    last = rows[-1]
    bad = [row for row in rows if row["verdict"] in BAD]
    if not bad:
        return last["verdict"], last
    if last["verdict"] not in BAD:
        return Verdict.FLAKY.value, bad[-1]
    blamed = [row for row in bad if _was_blamed_for_unusable_device(row)]
    if blamed and not _was_blamed_for_unusable_device(last):
        bad = [row for row in bad if not _was_blamed_for_unusable_device(row)]
        first = next(failure for failure in blamed[0]["failures"] if failure["kind"] == Kind.STATE.value)
        message = (
            f"the first attempt {first['message']}; the last attempt did not, so an earlier case may have "
            "caused it"
        )
        blame: FailureRow = {"kind": Kind.STATE.value, "message": message}
        failures = [*last.get("failures", ()), blame]
        bad[-1] = {**last, "failures": failures, "failure_count": last.get("failure_count", 0) + 1}
    worst = Verdict.worst([Verdict(row["verdict"]) for row in bad])
    return worst.value, next(row for row in reversed(bad) if row["verdict"] == worst.value)
