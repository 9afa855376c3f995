"""Types of the callbacks of PyTorch's cross-repository CI, and their validation before sending.

PyTorch publishes no schema. These types follow the public code of pytorch/test-infra, read in 2026: the
action ``cross-repo-ci-relay-callback``, the relay's ``callback_handler.py`` and the HUD's ``crcrUtils.ts``.
The HUD takes the level of a repository (L1 to L4) from the relay's allowlist, never from a callback.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
from typing import Any, TypedDict

from conformance.errors import UsageError
from conformance.model.schema import Schema, SchemaError

SCHEMA_VERSION = "1"
#: Events that a repository reports without a dispatch, in one callback after the run.
SELF_REPORTED = ("nightly", "periodic")
#: Events that the relay dispatches. For each, the relay accepts two callbacks: in_progress and completed.
DISPATCHED = ("pull_request", "push")
#: Limits of the relay: the number of detailed failures, the bytes of a message, of a stack trace and of a
#: body.
MOST, MESSAGE, STACK, BODY = 1000, 1024, 4096, 2 << 20
COMMIT = re.compile(r"[0-9a-f]{40}")


class Counts(TypedDict):
    """The numbers of results in the relay's three categories."""

    passed: int
    failed: int
    skipped: int


class FailedTest(TypedDict):
    """The details of one failure. ``duration`` is in seconds; texts are cut to the limits of the relay."""

    name: str
    classname: str
    message: str
    stacktrace: str
    duration: float


class _WorkflowOptional(TypedDict, total=False):
    test_results: Counts
    failed_tests_detail: list[FailedTest]
    artifact_url: str


class Workflow(_WorkflowOptional):
    """The job that the HUD displays. Its duration is ``completed_at`` minus ``started_at``."""

    schema_version: str
    status: str
    conclusion: str | None
    name: str
    url: str
    run_id: str
    run_attempt: str
    job_name: str
    check_run_id: str
    started_at: str | None
    completed_at: str | None


class Callback(TypedDict):
    """The body of a callback. ``payload`` is the unchanged payload of a dispatched event."""

    event_type: str
    delivery_id: str
    payload: dict[str, Any]
    workflow: Workflow


def head_sha(event_type: str, payload: Any) -> str:
    """Return the commit of PyTorch in the payload of an event, or an empty text if it contains none."""
    pull = payload.get("pull_request") if isinstance(payload, dict) else None
    head = pull.get("head") if isinstance(pull, dict) else None
    sha: object = ""
    if event_type == "pull_request":
        sha = head.get("sha") if isinstance(head, dict) else ""
    elif isinstance(payload, dict):
        sha = payload.get("after" if event_type == "push" else "head_sha")
    return sha if isinstance(sha, str) and COMMIT.fullmatch(sha) else ""


def utc_text(moment: datetime.datetime) -> str:
    """Return a time in the format of the relay: UTC, in whole seconds."""
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_callback(body: Callback) -> None:
    """Raise UsageError with the first reason why the relay or the HUD would reject a callback."""
    try:
        _schema().validate(body)
    except SchemaError as error:
        raise UsageError(f"the relay would reject {str(error).lstrip('.')}; correct this value") from None
    wrong = _violated_rule(body)
    if wrong is not None:
        raise UsageError(wrong)
    size = len(json.dumps(body).encode())
    if size > BODY:
        raise UsageError(f"the callback has {size} bytes, the HUD accepts {BODY}; report fewer legs at once")


@functools.cache
def _schema() -> Schema:
    return Schema.load("relay")


def _violated_rule(body: Callback) -> str | None:
    """Return the first violation of a rule that involves several keys, or None."""
    event, workflow = body["event_type"], body["workflow"]
    running = workflow["status"] == "in_progress"
    if event in SELF_REPORTED and running:
        return (
            f"the relay does not accept an in_progress callback of a {event} run; report the run when it is "
            "completed"
        )
    if not head_sha(event, body["payload"]):
        return f"the event {event} contains no commit of PyTorch; pass the event that the relay dispatched"
    if event in SELF_REPORTED and body["delivery_id"] != body["payload"]["head_sha"]:
        return f"a {event} callback has delivery_id {body['delivery_id']!r}; the relay requires the commit"
    if running and (workflow["conclusion"] is not None or workflow["completed_at"] is not None):
        return "an in_progress callback has a conclusion or an end; omit both"
    if not running and (workflow["conclusion"] is None or workflow["completed_at"] is None):
        return "a completed callback has no conclusion or no end; add both"
    if len(workflow.get("failed_tests_detail", ())) > MOST:
        return f"a callback details at most {MOST} failures; cut the list"
    return None
