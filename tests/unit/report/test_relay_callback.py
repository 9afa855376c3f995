"""``report.relay_callback`` rejects each callback body that the relay or PyTorch's HUD would reject."""

from __future__ import annotations

import copy

import pytest

from conformance.errors import UsageError
from conformance.report import relay_callback

COMMIT = "cf30153c4c131c8164ee7798e5022d810682e2cb"
#: The example in the public README of the relay, with the field names that the HUD reads.
PULL = {
    "event_type": "pull_request",
    "delivery_id": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    "payload": {"pull_request": {"number": 1, "head": {"sha": COMMIT}}},
    "workflow": {
        "schema_version": "1",
        "status": "completed",
        "conclusion": "success",
        "name": "CI",
        "url": "https://github.com/org/repo/actions/runs/123",
        "run_id": "123",
        "run_attempt": "2",
        "job_name": "my-ci-job",
        "check_run_id": "456",
        "started_at": None,
        "completed_at": "2026-05-04T21:23:45Z",
        "test_results": {"passed": 42, "failed": 3, "skipped": 5},
        "failed_tests_detail": [{"name": "test_foo", "classname": "TestBar", "message": "AssertionError"}],
        "artifact_url": "https://github.com/org/repo/actions/runs/123/artifacts",
    },
}
NIGHTLY = {**PULL, "event_type": "nightly", "delivery_id": COMMIT, "payload": {"head_sha": COMMIT}}


def with_value_at(body, path, value):
    modified = copy.deepcopy(body)
    *parents, last = path.split(".")
    inner = modified
    for key in parents:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return modified


@pytest.mark.parametrize("body", [PULL, NIGHTLY])
def test_valid_bodies_are_accepted(body):
    relay_callback.check_callback(body)


def test_a_callback_of_a_running_job():
    body = with_value_at(PULL, "workflow.status", "in_progress")
    body = with_value_at(body, "workflow.conclusion", None)
    body = with_value_at(body, "workflow.started_at", "2026-05-04T20:48:28Z")
    relay_callback.check_callback(with_value_at(body, "workflow.completed_at", None))
    with pytest.raises(UsageError, match="omit both"):
        relay_callback.check_callback(body)
    nightly = {**body, "event_type": "nightly", "payload": {"head_sha": COMMIT}}
    with pytest.raises(UsageError, match="not accept an in_progress callback of a nightly run"):
        relay_callback.check_callback(nightly)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("event_type", "weekly", "event_type"),
        ("event_type", "push", "contains no commit"),
        ("delivery_id", ..., "delivery_id"),
        ("delivery_id", "", "delivery_id"),
        ("payload", None, "payload"),
        ("payload", {}, "contains no commit"),
        ("payload.pull_request.head.sha", "HEAD", "contains no commit"),
        ("workflow.job_name", ..., "job_name"),
        ("workflow.job_name", "", "job_name"),
        ("workflow.check_run_id", ..., "check_run_id"),
        ("workflow.check_run_id", None, "check_run_id"),
        ("workflow.run_id", 123, "run_id"),
        ("workflow.run_id", "12a", "run_id"),
        ("workflow.status", "queued", "status"),
        ("workflow.conclusion", "passed", "conclusion"),
        ("workflow.conclusion", None, "has no conclusion"),
        ("workflow.completed_at", None, "has no conclusion or no end"),
        ("workflow.completed_at", "2026-05-04 21:23", "completed_at"),
        ("workflow.schema_version", "2", "schema_version"),
        ("workflow.level", "L3", "level"),
        ("workflow.test_results.failed", -1, "test_results.failed"),
        ("workflow.test_results.failed", True, "test_results.failed"),
        ("workflow.test_results.failed", ..., "failed"),
        ("workflow.failed_tests_detail", [{"message": "x"}], "name"),
        ("workflow.failed_tests_detail", [{"name": "a", "stack": "x"}], "stack"),
        ("workflow.failed_tests_detail", [{"name": "a", "message": "x" * 1025}], "1025 of at most 1024"),
        ("workflow.failed_tests_detail", [{"name": "a"}] * 1001, "at most 1000 failures"),
        ("workflow.artifact_url", "http://x", "artifact_url"),
    ],
)
def test_invalid_bodies_are_rejected(path, value, message):
    with pytest.raises(UsageError, match=message):
        relay_callback.check_callback(with_value_at(PULL, path, value))


def test_the_delivery_id_of_a_scheduled_run_is_its_commit():
    with pytest.raises(UsageError, match="requires the commit"):
        relay_callback.check_callback(with_value_at(NIGHTLY, "delivery_id", "0" * 40))


def test_a_body_that_is_too_large_for_the_hud_is_rejected():
    with pytest.raises(UsageError, match="report fewer legs"):
        relay_callback.check_callback(with_value_at(PULL, "payload.x", "y" * (2 << 20)))
