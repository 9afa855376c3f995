"""The callback of PyTorch's cross-repository CI as types, and the check of one before it leaves.

Upstream publishes no schema. The form is that of its public code in pytorch/test-infra, read in 2026: the
action ``cross-repo-ci-relay-callback``, the relay's ``callback_handler.py`` and the HUD's ``crcrUtils.ts``.
The HUD takes the level of a repository (L1 to L4) from the relay's allowlist, never from a body.
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
#: Events that a repository reports by itself, in one callback after the run.
SELF_REPORTED = ("nightly", "periodic")
#: Events that the relay dispatches, and about which it takes two callbacks.
DISPATCHED = ("pull_request", "push")
#: Limits of the relay: failures in detail, bytes of their texts, bytes of a body.
MOST, MESSAGE, STACK, BODY = 1000, 1024, 4096, 2 << 20
COMMIT = re.compile(r"[0-9a-f]{40}")


class Counts(TypedDict):
    """Numbers of results as the relay counts them."""

    passed: int
    failed: int
    skipped: int


class FailedTest(TypedDict):
    """One failure in detail; ``duration`` in seconds, the texts cut to the limits of the relay."""

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
    """The job that the relay shows. The HUD's duration is from ``started_at`` to ``completed_at``."""

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
    """The body of a callback; ``payload`` is the event of a dispatch, handed back as it came."""

    event_type: str
    delivery_id: str
    payload: dict[str, Any]
    workflow: Workflow


def head_sha(event_type: str, payload: Any) -> str:
    """The commit of PyTorch that an event's payload is about; an empty text if it names none."""
    pull = payload.get("pull_request") if isinstance(payload, dict) else None
    head = pull.get("head") if isinstance(pull, dict) else None
    sha: object = ""
    if event_type == "pull_request":
        sha = head.get("sha") if isinstance(head, dict) else ""
    elif isinstance(payload, dict):
        sha = payload.get("after" if event_type == "push" else "head_sha")
    return sha if isinstance(sha, str) and COMMIT.fullmatch(sha) else ""


def utc_text(moment: datetime.datetime) -> str:
    """A moment as the relay writes it: UTC, in whole seconds."""
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_callback(body: Callback) -> None:
    """Raise UsageError with the first point in which the relay or its HUD would refuse a body."""
    try:
        _schema().validate(body)
    except SchemaError as error:
        raise UsageError(f"the relay would refuse {str(error).lstrip('.')}; correct that value") from None
    wrong = _contradiction(body)
    if wrong is not None:
        raise UsageError(wrong)
    size = len(json.dumps(body).encode())
    if size > BODY:
        raise UsageError(f"the callback has {size} bytes; the HUD takes {BODY}, so report fewer legs at once")


@functools.cache
def _schema() -> Schema:
    return Schema.load("relay")


def _contradiction(body: Callback) -> str | None:
    """The rules that span several keys."""
    event, workflow = body["event_type"], body["workflow"]
    running = workflow["status"] == "in_progress"
    if event in SELF_REPORTED and running:
        return f"the relay takes no in_progress callback of a {event} run; report it when it is completed"
    if not head_sha(event, body["payload"]):
        return f"the event {event} names no commit of PyTorch; pass the event that the relay dispatched"
    if event in SELF_REPORTED and body["delivery_id"] != body["payload"]["head_sha"]:
        return f"a {event} callback has delivery_id {body['delivery_id']!r}; the relay wants the commit there"
    if running and (workflow["conclusion"] is not None or workflow["completed_at"] is not None):
        return "an in_progress callback has a conclusion or an end; leave both out"
    if not running and (workflow["conclusion"] is None or workflow["completed_at"] is None):
        return "a completed callback lacks its conclusion or its end; add both"
    if len(workflow.get("failed_tests_detail", ())) > MOST:
        return f"a callback details at most {MOST} failures; cut the list"
    return None
