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
    records.WorkerEndEvent
    | records.DtypeEvent
    | records.ResultEvent
    | records.ProbeEvent
    | records.LostWorkerEvent
    | records.IndependentLossEvent
)
_LOST = (Verdict.CRASH.value, Verdict.TIMEOUT.value)
#: Thresholds for treating a subject as one that always ends its process: the number of lost results in a row,
#: and the numbers of different properties and kinds of dtypes among these results. A subject with fewer
#: properties or kinds must have lost results of all of them.
_LOSSES_IN_A_ROW, _LOST_PROPERTIES, _LOST_KINDS = 3, 3, 3
#: Verdicts of results that may not have called the device.
_NOT_RUN = (Verdict.UNSUPPORTED.value, Verdict.SKIP.value)
#: If the results of a property in one dtype were lost for this number of subjects in a row, the runner first
#: runs a sample of the property's other results in this dtype.
LOST_SUBJECTS_IN_A_ROW = 5


class LossGroup(NamedTuple):
    """Results that are lost together.

    The group contains the results of one subject in all dtypes, of one subject in one dtype, of one property
    in one dtype, or of one behaviour of an area.

    ``kind`` is the kind of the subjects. Fields that do not apply are empty.
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
    running_result: str | None = None
    attempt: int = 1
    last: str | None = None
    probing: str | None = None
    ended: str | None = None
    recorded_as_lost: bool = False
    #: Whether no other result can have blocked the device when the result of this worker was lost.
    independent: bool = False


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
        #: Number of workers that started since a result last passed, and the id of the result that passed.
        self.starts_without_pass = 0
        self.last_passed: str | None = None
        #: Total seconds of all finished runs in this journal.
        self.seconds = 0.0
        self.rounds = 0
        #: Results whose known-answer probe was running when a run was killed.
        self.unprobed: set[str] = set()
        #: The last sample of results of each property and dtype that was suspected of ending its process.
        self._samples: dict[LossGroup, list[str]] = {}
        #: The lost results by subject. ``_confirmed`` caches the confirmed groups. The cache is valid for its
        #: numbers of certain losses and of results.
        self._lost_of_subject: dict[LossGroup, list[str]] = {}
        self._confirmed: tuple[tuple[int, int], dict[LossGroup, str]] = ((0, 0), {})
        #: The results and attempts that crashed, or hung while no other result can have blocked the device.
        self._certain_losses: set[tuple[str, int]] = set()
        #: The order in which the results began, by id.
        self._order: dict[str, int] = {}
        #: The kind of the subject of each case, and the properties and dtypes of each subject, from the plan.
        self._kinds: dict[str, str] | None = None
        self._properties: dict[LossGroup, set[str]] = {}
        self._dtypes: dict[LossGroup, set[str]] = {}

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
                worker.running_result, worker.attempt = event["id"], event.get("attempt", 1)
                self._order.setdefault(event["id"], len(self._order))
            case "result":
                self._on_result(event)
            case "probe":
                self._on_probe(event)
            case "lost":
                self._on_lost(event)
            case "independent":
                if event["worker"] in self.workers:
                    self.workers[event["worker"]].independent = True
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

        The workers of the earlier run were killed with that run. Their unfinished results are therefore not
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
        worker.running_result, worker.last = None, row["id"]
        self.attempts.setdefault(row["id"], []).append(row)
        self.unprobed.discard(row["id"])
        if row["verdict"] == Verdict.CRASH.value or worker.independent:
            self._certain_losses.add((row["id"], row.get("attempt", 1)))
        if row["verdict"] in _LOST and "blocked_by" not in row and row.get("attempt", 1) == 1:
            for group in self.loss_groups_of(row["id"]):
                if group.subject and not group.dtype:
                    self._lost_of_subject.setdefault(group, []).append(row["id"])
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

    def _on_lost(self, event: records.LostWorkerEvent) -> None:
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

    @property
    def can_workers_wait(self) -> bool:
        """True if other workers run results while the result of a worker waits for its time limit."""
        return self.header is not None and self.header.get("workers", 1) > 1

    def last_attempt(self) -> int:
        """Return the highest attempt number of any result."""
        return max((row.get("attempt", 1) for rows in self.attempts.values() for row in rows), default=0)

    def has_attempt(self, result_id: str, attempt: int) -> bool:
        """Return True if a result has an attempt of this number."""
        return any(row.get("attempt", 1) == attempt for row in self.attempts.get(result_id, ()))

    def loss_groups_of(self, result_id: str) -> tuple[LossGroup, ...]:
        """Return the groups of a result: its subject, its subject in its dtype, and its property in its
        dtype. A result of an API area is only in the group of its behaviour.
        """
        if self._kinds is None:
            self._kinds = self._kind_by_case()
        parsed = ResultId.parse(result_id)
        kind = self._kinds.get(str(parsed.case), "")
        if not kind:
            return ()
        if kind in AREA_KINDS:
            return (_widest_loss_group(kind, parsed.case.property, parsed.case.subject),)
        return (
            _widest_loss_group(kind, parsed.case.property, parsed.case.subject),
            LossGroup(kind, subject=parsed.case.subject, dtype=parsed.dtype),
            LossGroup(kind, property=parsed.case.property, dtype=parsed.dtype),
        )

    def _kind_by_case(self) -> dict[str, str]:
        kinds: dict[str, str] = {}
        if self.plan is None:
            return kinds
        for kind, name, subject, dtypes in self.plan["cases"]:
            kinds[f"{name}/{subject}"] = kind
            group = _widest_loss_group(kind, name, subject)
            self._properties.setdefault(group, set()).add(name)
            self._dtypes.setdefault(group, set()).update(self.plan["dtypes"][dtypes])
        return kinds

    def results_to_retry(self) -> list[str]:
        """Return the ids of the results whose only attempt lost its worker or left the device unusable.

        A result is omitted if its subject or behaviour is known to end its process in every attempt.
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
                    and not any(
                        group in confirmed for group in self.loss_groups_of(result_id) if group.subject
                    )
                )
                or _was_blamed_for_unusable_device(rows[-1])
            )
        ]

    def suspected_groups(self) -> list[LossGroup]:
        """Return the pairs of property and dtype of which the runner must run a sample.

        The results of such a pair were lost for ``LOST_SUBJECTS_IN_A_ROW`` subjects in a row. Results that
        did not run are ignored.
        """
        in_a_row: dict[LossGroup, int] = collections.Counter()
        for result_id in sorted(self.attempts, key=lambda name: self._order.get(name, -1)):
            first = self.attempts[result_id][0]
            if "blocked_by" in first:
                continue
            for group in self.loss_groups_of(result_id):
                if not group.subject:
                    in_a_row[group] = in_a_row[group] + 1 if first["verdict"] in _LOST else 0
        confirmed = self.confirmed_groups()
        return [
            group
            for group, losses in in_a_row.items()
            if group not in confirmed and losses >= LOST_SUBJECTS_IN_A_ROW
        ]

    def confirmed_groups(self) -> dict[LossGroup, str]:
        """Return each group that always ends or blocks its process, with the id of a lost result.

        A subject, a subject in a dtype, or a behaviour is confirmed if results of different properties and
        kinds of dtypes were lost in a row. A property in a dtype is confirmed if all its sampled results were
        lost.
        """
        version = len(self._certain_losses), len(self.attempts)
        if self._confirmed[0] != version:
            self._confirmed = (version, self._confirmed_subjects())
        sampled = {
            group: results[0]
            for group, results in self._samples.items()
            if all(map(self.was_lost_at_first, results))
        }
        return {**self._confirmed[1], **sampled}

    def _confirmed_subjects(self) -> dict[LossGroup, str]:
        suspected = {
            group for group, results in self._lost_of_subject.items() if len(results) >= _LOSSES_IN_A_ROW
        }
        if not suspected:
            return {}
        in_a_row: dict[LossGroup, list[ResultId]] = collections.defaultdict(list)
        finished: dict[LossGroup, set[str]] = collections.defaultdict(set)
        names = {group.subject for group in suspected}
        of_suspected = [name for name in self.attempts if name.partition("/")[2].rpartition("@")[0] in names]
        for result_id in sorted(of_suspected, key=lambda name: self._order.get(name, -1)):
            groups = self.loss_groups_of(result_id)
            first = self.attempts[result_id][0]
            if not groups or groups[0] not in suspected or "blocked_by" in first:
                continue
            parsed = ResultId.parse(result_id)
            for group in groups[:2]:
                if first["verdict"] in _LOST:
                    if (result_id, 1) in self._certain_losses:
                        in_a_row[group].append(parsed)
                elif first["verdict"] not in _NOT_RUN:
                    in_a_row[group].clear()
                    finished[group].add(parsed.dtype)
        return {
            group: str(results[0])
            for group, results in in_a_row.items()
            if len(results) >= _LOSSES_IN_A_ROW and self._are_losses_diverse(group, results, finished[group])
        }

    def _are_losses_diverse(self, group: LossGroup, results: list[ResultId], finished: set[str]) -> bool:
        """Return whether the lost results of a group have enough different properties and dtypes to confirm
        it.

        ``finished`` are the dtypes in which a result of the group finished.
        """
        subject = group._replace(dtype="")
        properties = {result.case.property for result in results}
        if len(properties) < min(_LOST_PROPERTIES, len(self._properties[subject])):
            return False
        lost = {result.dtype for result in results}
        kinds = set(map(kind_of_dtype, lost))
        all_kinds = set(map(kind_of_dtype, self._dtypes[subject]))
        return bool(group.dtype) or (finished <= lost and len(kinds) >= min(_LOST_KINDS, len(all_kinds)))

    def is_lost_by_crashes(self, group: LossGroup) -> bool:
        """Return True if a result of a subject or behaviour crashed."""
        widest = group._replace(dtype="")
        return any(
            self.attempts[result_id][0]["verdict"] == Verdict.CRASH.value
            for result_id in self._lost_of_subject.get(widest, ())
        )

    def results_to_retry_alone(self) -> list[str]:
        """Return the ids of the results that hung twice, each time while another result may have blocked the
        device.
        """
        return [
            result_id
            for result_id, rows in self.attempts.items()
            if rows[-1].get("attempt", 1) == 2
            and rows[-1]["verdict"] == Verdict.TIMEOUT.value
            and "blocked_by" not in rows[-1]
            and not any((result_id, attempt) in self._certain_losses for attempt in (1, 2))
        ]

    def was_run(self, result_id: str) -> bool:
        """Return True if a result has an attempt whose verdict is neither ``unsupported`` nor ``skip``."""
        return any(row["verdict"] not in _NOT_RUN for row in self.attempts.get(result_id, ()))

    def was_lost_at_first(self, result_id: str) -> bool:
        """Return True if the first attempt at a result ran and lost its worker."""
        rows = self.attempts.get(result_id)
        return rows is not None and rows[0]["verdict"] in _LOST and "blocked_by" not in rows[0]

    def was_certainly_lost(self, result_id: str, attempt: int) -> bool:
        """Return True if an attempt at a result ran and lost its worker, and no other result can have caused
        the loss.
        """
        return (result_id, attempt) in self._certain_losses and self.was_lost(result_id, attempt)

    def was_lost(self, result_id: str, attempt: int) -> bool:
        """Return True if an attempt at a result ran and lost its worker."""
        return any(
            row.get("attempt", 1) == attempt and row["verdict"] in _LOST and "blocked_by" not in row
            for row in self.attempts.get(result_id, ())
        )

    def blocker_of_result_that_never_ran(self, result_id: str) -> str | None:
        """Return the id of the lost result because of which ``result_id`` never ran, or None if it ran."""
        rows = self.attempts.get(result_id, ())
        if not rows or any("blocked_by" not in row for row in rows):
            return None
        return str(rows[-1]["blocked_by"])

    def _on_sample(self, event: records.SampleEvent) -> None:
        group = LossGroup(event["kind"], event["subject"], event["property"], event["dtype"])
        self._samples[group] = list(event["results"])


def kind_of_dtype(dtype: str) -> str:
    """Return the kind of a dtype, such as ``int`` for ``int8``. Dtypes of one kind often share kernels."""
    if dtype in ("float16", "bfloat16"):
        return "16 bits"
    return dtype.rstrip("0123456789").removeprefix("u")


def _widest_loss_group(kind: str, property_name: str, subject: str) -> LossGroup:
    """Return the largest group of a result: its subject, or its behaviour if the subject is an area."""
    return LossGroup(kind, subject=subject, property=property_name if kind in AREA_KINDS else "")


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
    # Rows with ``blocked_by`` record results that did not run. Ignore them if there are other rows.
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
