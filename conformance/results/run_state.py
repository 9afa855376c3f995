"""The run state: the state of each result and worker, rebuilt from the journal's events."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, cast

from conformance.model import records
from conformance.model.records import AttemptRow, Event, FailureRow
from conformance.model.verdicts import Kind, ResultId, Verdict
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
#: After this number of lost results, the runner runs a sample of the subject before it runs more of it.
_LOSSES_IN_A_ROW, _LOSSES = 2, 5
#: After results of a property in a dtype were lost for this number of subjects in a row, the runner runs a
#: sample of its other results in this dtype before it runs more of them.
LOST_SUBJECTS_IN_A_ROW = 5


class LossGroup(NamedTuple):
    """Results that are lost together: those of one subject, or those of one property in one dtype.

    ``kind`` is the kind of the subjects. Fields that do not apply are empty: ``property`` and ``dtype`` for a
    subject, ``subject`` for a property.
    """

    kind: str
    subject: str = ""
    property: str = ""
    dtype: str = ""


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
        #: The last sample of each group that was suspected of ending its process, and the number of its lost
        #: results at that time.
        self._samples: dict[LossGroup, list[str]] = {}
        self._losses_at_sample: dict[LossGroup, int] = {}
        #: The order in which the results began, by id.
        self._order: dict[str, int] = {}
        #: The kind of the subject of each case, from the plan.
        self._kinds: dict[str, str] | None = None

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
                self._on_sample(event)
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

    def loss_groups_of(self, result_id: str) -> tuple[LossGroup, ...]:
        """Return the groups of a result: its subject, and its property in its dtype. A result of an area has
        no group, because an area is no single subject.
        """
        if self._kinds is None:
            cases = [] if self.plan is None else self.plan["cases"]
            self._kinds = {f"{name}/{subject}": kind for kind, name, subject, _ in cases}
        parsed = ResultId.parse(result_id)
        kind = self._kinds.get(str(parsed.case), "")
        if not kind or kind in AREA_KINDS:
            return ()
        return (
            LossGroup(kind, subject=parsed.case.subject),
            LossGroup(kind, property=parsed.case.property, dtype=parsed.dtype),
        )

    def results_to_retry(self) -> list[str]:
        """Return the ids of the results to retry: their only attempt lost its worker, or left the device
        unusable. Results of a group that a sample confirmed are not retried.
        """
        confirmed = self.confirmed_groups()
        return [
            result_id
            for result_id, rows in self.attempts.items()
            if rows[-1].get("attempt", 1) == 1
            and "blocked_by" not in rows[-1]
            and (
                (
                    rows[-1]["verdict"] in _LOST
                    and not any(group in confirmed for group in self.loss_groups_of(result_id))
                )
                or _was_blamed_for_unusable_device(rows[-1])
            )
        ]

    def suspected_groups(self) -> list[LossGroup]:
        """Return the groups of which the runner must run a sample, because many of their results were lost.

        A subject is suspected after ``_LOSSES_IN_A_ROW`` lost results with no other result between, or after
        ``_LOSSES`` more since its last sample. A property in a dtype is suspected after results of
        ``LOST_SUBJECTS_IN_A_ROW`` subjects were lost with no other result between. Results that did not run
        do not count.
        """
        in_a_row: dict[LossGroup, list[str]] = collections.defaultdict(list)
        lost: dict[LossGroup, int] = collections.Counter()
        for result_id in sorted(self.attempts, key=lambda name: self._order.get(name, -1)):
            first = self.attempts[result_id][0]
            if "blocked_by" in first:
                continue
            for group in self.loss_groups_of(result_id):
                if first["verdict"] in _LOST:
                    in_a_row[group].append(result_id)
                    lost[group] += 1
                else:
                    in_a_row[group].clear()
        confirmed = self.confirmed_groups()
        return [
            group
            for group, names in in_a_row.items()
            if group not in confirmed and self._is_suspected(group, len(names), lost[group])
        ]

    def _is_suspected(self, group: LossGroup, in_a_row: int, lost: int) -> bool:
        if group.property:
            return in_a_row >= LOST_SUBJECTS_IN_A_ROW
        if group in self._samples:
            return lost - self._losses_at_sample[group] >= _LOSSES
        return in_a_row >= _LOSSES_IN_A_ROW or lost >= _LOSSES

    def confirmed_groups(self) -> dict[LossGroup, str]:
        """Return each group whose sampled results were all lost, with the id of the first of them."""
        return {
            group: results[0]
            for group, results in self._samples.items()
            if all(self.was_lost_at_first(result) for result in results)
        }

    def was_lost_at_first(self, result_id: str) -> bool:
        """Return True if the first attempt at a result ran and lost its worker."""
        rows = self.attempts.get(result_id)
        return rows is not None and rows[0]["verdict"] in _LOST and "blocked_by" not in rows[0]

    def was_lost(self, result_id: str, attempt: int) -> bool:
        """Return True if an attempt at a result ran and lost its worker."""
        return any(
            row.get("attempt", 1) == attempt and row["verdict"] in _LOST and "blocked_by" not in row
            for row in self.attempts.get(result_id, ())
        )

    def blocker_of_result_that_never_ran(self, result_id: str) -> str | None:
        """Return the id of the lost result because of which a result never ran, or None if it ran."""
        rows = self.attempts.get(result_id, ())
        if not rows or any("blocked_by" not in row for row in rows):
            return None
        return str(rows[-1]["blocked_by"])

    def lost_properties(self, subject: LossGroup) -> set[str]:
        """Return the properties of which a subject lost results."""
        return {
            result_id.partition("/")[0]
            for result_id in self.attempts
            if self.was_lost_at_first(result_id) and subject in self.loss_groups_of(result_id)
        }

    def _on_sample(self, event: records.SampleEvent) -> None:
        group = LossGroup(event["kind"], event["subject"], event["property"], event["dtype"])
        self._samples[group] = list(event["results"])
        self._losses_at_sample[group] = sum(
            group in self.loss_groups_of(result_id)
            for result_id in self.attempts
            if self.was_lost_at_first(result_id)
        )


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
    # A row of a result that did not run counts only if there is no other.
    rows = [row for row in rows if "blocked_by" not in row] or rows
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
