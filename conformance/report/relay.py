"""Build the callbacks that report a run to PyTorch's cross-repository CI.

The relay requires the counts of a completed run, the tested commit of PyTorch, and the details of at most a
thousand failures (RFC-0050, RFC-0054 and the callback action of pytorch/test-infra). The relay does not
verify a callback. A result that contradicts PyTorch's documentation or itself is therefore never counted
as passed, and the commit must match. A result with the verdict ``parity`` (it differs from the CPU, and no
documentation page says which of the two is right) is counted as passed.
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

#: The maximum size of an event file in bytes. GitHub's own limit for the payload of a dispatch is far lower.
MAX_EVENT = 8 << 20
_PASSED = ("pass", "parity")
_SKIPPED = ("skip", "unsupported", "xfail")


@dataclasses.dataclass(frozen=True)
class Job:
    """The CI job of a callback. An empty ``check_run_id`` is replaced by the run id and the attempt."""

    name: str
    job: str
    url: str
    run_id: str
    run_attempt: str = "1"
    check_run_id: str = ""
    artifact: str = ""


@dataclasses.dataclass(frozen=True)
class RelayEvent:
    """The event that started a run. A self-reported event has no delivery id and no payload."""

    type: str = "nightly"
    delivery_id: str = ""
    payload: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def dispatched(self) -> bool:
        """True if the relay dispatched the event and waits for callbacks."""
        return self.type in relay_callback.DISPATCHED


def read_event(path: Path) -> RelayEvent:
    """Read the event that the relay dispatched.

    The file contains the event of a GitHub workflow (``GITHUB_EVENT_PATH``), or only its client payload.
    Raise UsageError if the relay did not dispatch the event, or a required key is missing.
    """
    try:
        if path.stat().st_size > MAX_EVENT:
            raise UsageError(
                f"event {path} has more than {MAX_EVENT} bytes; give the event file of a workflow"
            )
        data = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"event {path} cannot be read ({error.strerror}); choose another file") from None
    except (ValueError, RecursionError):
        raise UsageError(f"event {path} is not JSON; give the event file of a workflow") from None
    dispatch = data.get("client_payload", data) if isinstance(data, dict) else None
    if not isinstance(dispatch, dict) or dispatch.get("event_type") not in relay_callback.DISPATCHED:
        raise UsageError(
            f"event {path} was not dispatched by the relay; its event_type is not one of "
            f"{', '.join(relay_callback.DISPATCHED)}, so report the run as nightly or periodic"
        )
    delivery, payload = dispatch.get("delivery_id"), dispatch.get("payload")
    if not isinstance(delivery, str) or not isinstance(payload, dict):
        raise UsageError(f"event {path} has no delivery_id or payload; pass the event unchanged")
    if not relay_callback.head_sha(dispatch["event_type"], payload):
        raise UsageError(f"event {path} contains no commit of PyTorch; pass the event unchanged")
    return RelayEvent(dispatch["event_type"], delivery, payload)


def in_progress_callback(job: Job, event: RelayEvent, started: datetime.datetime) -> Callback:
    """Return the first callback of a dispatched event: the job has started."""
    body: Callback = {
        "event_type": event.type,
        "delivery_id": event.delivery_id,
        "payload": event.payload,
        "workflow": _workflow(job, "in_progress", None, relay_callback.utc_text(started), None),
    }
    relay_callback.check_callback(body)
    return body


def completed_callback(legs: Sequence[Leg], job: Job, event: RelayEvent, now: datetime.datetime) -> Callback:
    """Return the callback of a completed run on one build of torch.

    Legs of several modes are one job. The name of each failed test starts with the mode. Raise UsageError if
    the legs have several builds, the commit of PyTorch is unknown, or this commit differs from the commit of
    the event.
    """
    commit = _torch_commit(legs)
    if event.dispatched:
        wanted = relay_callback.head_sha(event.type, event.payload)
        if wanted != commit:
            raise UsageError(
                f"the run tested commit {commit} of PyTorch, but the event requests {wanted or 'none'}; "
                "build torch at the commit of the event"
            )
    # The relay computes the duration of a dispatched job from its two callbacks. Only a self-report needs a
    # start time.
    started = None if event.dispatched else _start_of_run(legs)
    workflow = _workflow(job, "completed", run_conclusion(legs), started, relay_callback.utc_text(now))
    workflow["test_results"] = count_results(legs)
    workflow["failed_tests_detail"] = _failed_tests(legs)
    if job.artifact:
        workflow["artifact_url"] = job.artifact
    own = {"repository": {"full_name": "pytorch/pytorch"}, "head_sha": commit}
    body: Callback = {
        "event_type": event.type,
        "delivery_id": event.delivery_id if event.dispatched else commit,
        "payload": event.payload if event.dispatched else own,
        "workflow": workflow,
    }
    relay_callback.check_callback(body)
    return body


def job_name(legs: Sequence[Leg]) -> str:
    """Return a job name with the level, the modes and the build of a run.

    A callback has no separate keys for level, modes and build.
    """
    parts = (dict.fromkeys(leg[key] for leg in legs) for key in ("level", "mode", "build"))
    level, modes, build = ("+".join(part) for part in parts)
    return f"conformance {level} / {modes} / torch {build}"


def run_conclusion(legs: Sequence[Leg]) -> Literal["success", "failure"]:
    """Return the conclusion of a run.

    A run that is incomplete, restricted, sharded or did not start is a ``failure``, independent of its rows.
    """
    whole = bool(legs) and all(
        leg["complete"]
        and leg["exit"] == 0
        and leg["results"]
        and (leg["selection"], leg["shard"], leg["left_out"]) == (None, "1/1", 0)
        for leg in legs
    )
    return "success" if whole and not count_results(legs)["failed"] else "failure"


def count_results(legs: Sequence[Leg]) -> Counts:
    """Return the numbers of passed, failed and skipped results. A missing result counts as failed."""
    totals: Counts = {"passed": 0, "failed": 0, "skipped": 0}
    for leg in legs:
        for row in leg["results"]:
            totals[_relay_outcome(row["verdict"])] += 1
        totals["failed"] += int(leg["missing"]["count"])
    return totals


def _torch_commit(legs: Sequence[Leg]) -> str:
    if not legs:
        raise UsageError("the run has no leg to report; run the suite first")
    torches = [leg["facts"].get("torch") for leg in legs]
    commits = {str(torch.get("revision")) if isinstance(torch, dict) else "unknown" for torch in torches}
    if len(commits) > 1:
        raise UsageError(f"the legs have {len(commits)} builds of torch; report each build separately")
    (commit,) = commits
    if not relay_callback.COMMIT.fullmatch(commit):
        raise UsageError(
            f"the commit of torch is unknown ({commit}); the relay accepts only results of a known commit"
        )
    return commit


def _start_of_run(legs: Sequence[Leg]) -> str | None:
    """Return the start of the first leg, or None if the start of a leg is not a valid time."""
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


def _failed_tests(legs: Sequence[Leg]) -> list[FailedTest]:
    rows = ((leg["mode"], row) for leg in legs for row in leg["results"])
    failed = (_failed_test(mode, row) for mode, row in rows if _relay_outcome(row["verdict"]) == "failed")
    details: list[FailedTest] = []
    room = relay_callback.BODY // 2
    for detail in failed:
        room -= len(json.dumps(detail))
        if room < 0 or len(details) == relay_callback.MOST:
            break
        details.append(detail)
    return details


def _failed_test(mode: str, row: ResultRow) -> FailedTest:
    failures = row.get("failures")
    message = f"{row['verdict']}: {failures[0]['message'] if failures else ''}"
    stack = str(failures[0].get("traceback") or "") if failures else ""
    return {
        "name": _cut_to_bytes(f"{mode}::{row['id']}", 1000),
        "classname": _cut_to_bytes(row["id"].partition("/")[0], 1000),
        "message": _cut_to_bytes(scrub.scrub_text(message), relay_callback.MESSAGE),
        "stacktrace": _cut_to_bytes(scrub.scrub_text(stack), relay_callback.STACK),
        "duration": round(max(row["seconds"], 0.0), 3),
    }


def _cut_to_bytes(text: str, most: int) -> str:
    """Return the text, cut to at most ``most`` bytes of UTF-8."""
    return text.encode(errors="replace")[:most].decode(errors="ignore")
