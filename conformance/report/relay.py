"""A results file in the form that PyTorch's cross-repository CI takes from the CI of a backend.

The relay wants counts of a completed run, the commit of PyTorch that was tested as its id, and details of at
most a thousand failures (RFC-0050 and the callback action of pytorch/test-infra). It shows what it receives:
a result that did not pass is never reported as passed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypedDict

from conformance.errors import UsageError
from conformance.model.records import Leg, Row
from conformance.results import privacy

SCHEMA_VERSION = "1"
#: Limits of the relay: failures that are reported in detail, and the sizes of their texts in bytes.
MOST, MESSAGE, STACK = 1000, 1024, 4096
_PASSED = ("pass",)
_SKIPPED = ("skip", "unsupported", "xfail")


class Counts(TypedDict):
    """Numbers of results as the relay counts them."""

    passed: int
    failed: int
    skipped: int


class Workflow(TypedDict):
    """The completed job that the relay shows."""

    schema_version: str
    status: str
    conclusion: str
    name: str
    url: str
    run_id: str
    run_attempt: str
    job_name: str
    completed_at: str
    test_results: Counts
    artifact_url: str


class FailedTest(TypedDict):
    """One failure in detail; the texts are cut to the limits of the relay."""

    name: str
    message: str
    stack: str


class Payload(TypedDict):
    """The body of the callback."""

    event_type: str
    delivery_id: str
    workflow: Workflow
    failed_tests_detail: list[FailedTest]


def payload(
    legs: Sequence[Leg],
    *,
    name: str,
    job: str,
    url: str,
    run_id: str,
    run_attempt: str,
    completed: str,
    artifact: str = "",
) -> Payload:
    """The body for one build of torch. Legs of several modes are one job, whose failures name their mode.

    UsageError if the legs are of several builds, or do not say which commit of PyTorch was tested.
    """
    if not legs:
        raise UsageError("there is no leg to report; run the suite first")
    torches = [leg["facts"].get("torch") for leg in legs]
    commits = {str(torch.get("revision")) if isinstance(torch, dict) else "unknown" for torch in torches}
    if len(commits) > 1:
        raise UsageError(f"the legs are of {len(commits)} builds of torch; report each build by itself")
    (commit,) = commits
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise UsageError(
            f"torch does not say its commit ({commit}); the relay takes results of known commits only"
        )
    rows = [(leg["mode"], row) for leg in legs for row in leg["results"]]
    counts: Counts = {"passed": 0, "failed": 0, "skipped": 0}
    details: list[FailedTest] = []
    for mode, row in rows:
        word = _word(row["verdict"])
        counts[word] += 1
        if word == "failed" and len(details) < MOST:
            details.append(_detail(mode, row))
    # A run that is not whole, or did not start, is a failure whatever its rows say.
    missing = sum(int(leg["missing"]["count"]) for leg in legs)
    counts["failed"] += missing
    whole = all(leg["complete"] and leg["exit"] == 0 for leg in legs)
    return {
        "event_type": "nightly",
        "delivery_id": commit,
        "workflow": {
            "schema_version": SCHEMA_VERSION,
            "status": "completed",
            "conclusion": "success" if whole and not counts["failed"] else "failure",
            "name": name,
            "url": url,
            "run_id": run_id,
            "run_attempt": run_attempt,
            "job_name": job,
            "completed_at": completed,
            "test_results": counts,
            "artifact_url": artifact,
        },
        "failed_tests_detail": details,
    }


def _word(verdict: str) -> Literal["passed", "failed", "skipped"]:
    if verdict in _PASSED:
        return "passed"
    return "skipped" if verdict in _SKIPPED else "failed"


def _detail(mode: str, row: Row) -> FailedTest:
    failures = row.get("failures")
    message = f"{row['verdict']}: {failures[0]['message'] if failures else ''}"
    stack = str(failures[0].get("traceback") or "") if failures else ""
    return {
        "name": f"{mode}::{row['id']}",
        "message": _cut(privacy.text(message), MESSAGE),
        "stack": _cut(privacy.text(stack), STACK),
    }


def _cut(text: str, most: int) -> str:
    """A text of at most so many bytes of UTF-8."""
    return text.encode(errors="replace")[:most].decode(errors="ignore")
