"""A run in the form that PyTorch's cross-repository CI takes from the CI of a backend.

The relay wants counts of a completed run, the commit of PyTorch that was tested, and details of at most a
thousand failures (RFC-0050, RFC-0054 and the callback action of pytorch/test-infra). It shows what it
receives: a result that did not pass is never reported as passed, nor a run as one of another commit.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from conformance.errors import UsageError
from conformance.model.records import Leg, ResultRow
from conformance.report import relay_callback
from conformance.report.relay_callback import Callback, Counts, FailedTest, Workflow
from conformance.results import scrub

#: Larger events are not read; GitHub's own limit for the payload of a dispatch is far lower.
MAX_EVENT = 8 << 20
_PASSED = ("pass",)
_SKIPPED = ("skip", "unsupported", "xfail")


@dataclasses.dataclass(frozen=True)
class Job:
    """The job of a CI that reports. ``check_run_id`` is GitHub's, else made of the run and its attempt."""

    name: str
    job: str
    url: str
    run_id: str
    run_attempt: str = "1"
    check_run_id: str = ""
    artifact: str = ""


@dataclasses.dataclass(frozen=True)
class Event:
    """The occasion of a run: an event that the relay dispatched, or, without an envelope, one's own."""

    type: str = "nightly"
    delivery_id: str = ""
    payload: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def dispatched(self) -> bool:
        """Return True if the relay waits for callbacks about it."""
        return self.type in relay_callback.DISPATCHED


def read_event(path: Path) -> Event:
    """The event in a file: that of a GitHub workflow (``GITHUB_EVENT_PATH``), or its client payload alone."""
    try:
        if path.stat().st_size > MAX_EVENT:
            raise UsageError(f"event {path} has more than {MAX_EVENT} bytes; name that of a workflow")
        data = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"event {path} cannot be read ({error.strerror}); name another file") from None
    except (ValueError, RecursionError):
        raise UsageError(f"event {path} is not JSON; name the file of a workflow's event") from None
    dispatch = data.get("client_payload", data) if isinstance(data, dict) else None
    if not isinstance(dispatch, dict) or dispatch.get("event_type") not in relay_callback.DISPATCHED:
        raise UsageError(
            f"event {path} was not dispatched by the relay; its event_type is not one of "
            f"{', '.join(relay_callback.DISPATCHED)}, so report the run as nightly or periodic"
        )
    delivery, payload = dispatch.get("delivery_id"), dispatch.get("payload")
    if not isinstance(delivery, str) or not isinstance(payload, dict):
        raise UsageError(f"event {path} lacks delivery_id or payload; pass it as the relay dispatched it")
    if not relay_callback.head_sha(dispatch["event_type"], payload):
        raise UsageError(f"event {path} names no commit of PyTorch; pass it as the relay dispatched it")
    return Event(dispatch["event_type"], delivery, payload)


def in_progress_callback(job: Job, occasion: Event, started: datetime.datetime) -> Callback:
    """The first callback about a dispatched event: the job runs now."""
    body: Callback = {
        "event_type": occasion.type,
        "delivery_id": occasion.delivery_id,
        "payload": occasion.payload,
        "workflow": _workflow(job, "in_progress", None, relay_callback.utc_text(started), None),
    }
    relay_callback.check_callback(body)
    return body


def completed_callback(legs: Sequence[Leg], job: Job, occasion: Event, now: datetime.datetime) -> Callback:
    """The callback about a run on one build of torch. Legs of several modes are one job, whose failures name
    their mode.

    UsageError if the legs are of several builds, do not say which commit of PyTorch was tested, or tested
    another one than the event is about.
    """
    commit = _commit(legs)
    if occasion.dispatched:
        wanted = relay_callback.head_sha(occasion.type, occasion.payload)
        if wanted != commit:
            raise UsageError(
                f"the run tested commit {commit} of PyTorch, and the event is about {wanted or 'none'}; "
                "build torch at the event's commit"
            )
    # The relay times a dispatched job by its two callbacks; of a self-report it knows what the body says.
    started = None if occasion.dispatched else _started(legs)
    workflow = _workflow(job, "completed", conclusion(legs), started, relay_callback.utc_text(now))
    workflow["test_results"] = count_results(legs)
    workflow["failed_tests_detail"] = _details(legs)
    if job.artifact:
        workflow["artifact_url"] = job.artifact
    own = {"repository": {"full_name": "pytorch/pytorch"}, "head_sha": commit}
    body: Callback = {
        "event_type": occasion.type,
        "delivery_id": occasion.delivery_id if occasion.dispatched else commit,
        "payload": occasion.payload if occasion.dispatched else own,
        "workflow": workflow,
    }
    relay_callback.check_callback(body)
    return body


def job_name(legs: Sequence[Leg]) -> str:
    """The level, the modes and the build of a run: the one place that the form has for them."""
    parts = (dict.fromkeys(leg[key] for leg in legs) for key in ("level", "mode", "build"))
    level, modes, build = ("+".join(part) for part in parts)
    return f"conformance {level} / {modes} / torch {build}"


def conclusion(legs: Sequence[Leg]) -> Literal["success", "failure"]:
    """The outcome of a run; one that is not whole, or did not start, failed whatever its rows say."""
    whole = bool(legs) and all(
        leg["complete"]
        and leg["exit"] == 0
        and leg["results"]
        and (leg["selection"], leg["shard"], leg["left_out"]) == (None, "1/1", 0)
        for leg in legs
    )
    return "success" if whole and not count_results(legs)["failed"] else "failure"


def count_results(legs: Sequence[Leg]) -> Counts:
    """Numbers of results; what is missing counts as failed."""
    totals: Counts = {"passed": 0, "failed": 0, "skipped": 0}
    for leg in legs:
        for row in leg["results"]:
            totals[_relay_outcome(row["verdict"])] += 1
        totals["failed"] += int(leg["missing"]["count"])
    return totals


def _commit(legs: Sequence[Leg]) -> str:
    if not legs:
        raise UsageError("there is no leg to report; run the suite first")
    torches = [leg["facts"].get("torch") for leg in legs]
    commits = {str(torch.get("revision")) if isinstance(torch, dict) else "unknown" for torch in torches}
    if len(commits) > 1:
        raise UsageError(f"the legs are of {len(commits)} builds of torch; report each build by itself")
    (commit,) = commits
    if not relay_callback.COMMIT.fullmatch(commit):
        raise UsageError(
            f"torch does not say its commit ({commit}); the relay takes results of known commits only"
        )
    return commit


def _started(legs: Sequence[Leg]) -> str | None:
    """The start of the first leg; None if a leg does not say it in a form that is known."""
    try:
        moments = [datetime.datetime.fromisoformat(leg["started"]) for leg in legs]
        return relay_callback.utc_text(min(moment for moment in moments if moment.tzinfo is not None))
    except (ValueError, OverflowError):
        return None


def _workflow(job: Job, status: str, end: str | None, started: str | None, finished: str | None) -> Workflow:
    return {
        "schema_version": relay_callback.SCHEMA_VERSION,
        "status": status,
        "conclusion": end,
        "name": job.name,
        "url": job.url,
        "run_id": job.run_id,
        "run_attempt": job.run_attempt,
        "job_name": job.job,
        "check_run_id": job.check_run_id or f"{job.run_id}-{job.run_attempt}",
        "started_at": started,
        "completed_at": finished,
    }


def _relay_outcome(verdict: str) -> Literal["passed", "failed", "skipped"]:
    if verdict in _PASSED:
        return "passed"
    return "skipped" if verdict in _SKIPPED else "failed"


def _details(legs: Sequence[Leg]) -> list[FailedTest]:
    rows = ((leg["mode"], row) for leg in legs for row in leg["results"])
    failed = (_detail(mode, row) for mode, row in rows if _relay_outcome(row["verdict"]) == "failed")
    details: list[FailedTest] = []
    room = relay_callback.BODY // 2
    for detail in failed:
        room -= len(json.dumps(detail))
        if room < 0 or len(details) == relay_callback.MOST:
            break
        details.append(detail)
    return details


def _detail(mode: str, row: ResultRow) -> FailedTest:
    failures = row.get("failures")
    message = f"{row['verdict']}: {failures[0]['message'] if failures else ''}"
    stack = str(failures[0].get("traceback") or "") if failures else ""
    return {
        "name": _cut(f"{mode}::{row['id']}", 1000),
        "classname": _cut(row["id"].partition("/")[0], 1000),
        "message": _cut(scrub.text(message), relay_callback.MESSAGE),
        "stacktrace": _cut(scrub.text(stack), relay_callback.STACK),
        "duration": round(max(row["seconds"], 0.0), 3),
    }


def _cut(text: str, most: int) -> str:
    """A text of at most so many bytes of UTF-8."""
    return text.encode(errors="replace")[:most].decode(errors="ignore")
