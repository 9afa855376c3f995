"""``report.relay`` writes the report for PyTorch's cross-repository CI. Only the verdict ``pass`` is reported
as passed.
"""

from __future__ import annotations

import datetime
import json

import pytest

from conformance import cli
from conformance.errors import UsageError
from conformance.report import relay
from conformance.report.relay import Job, RelayEvent
from tests.support.sample_passing_leg import fixed_suite_digest, leg, with_rows, write_output_folder

COMMIT = "cf30153c4c131c8164ee7798e5022d810682e2cb"
OTHER = "0" * 40
NOW = datetime.datetime(2026, 1, 9, tzinfo=datetime.timezone.utc)
JOB = Job("nightly", "eager", "https://x/1", "1")
PULL = {
    "event_type": "pull_request",
    "delivery_id": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    "payload": {"action": "opened", "pull_request": {"number": 12, "head": {"sha": COMMIT}}},
}


def relay_leg(**changes):
    with fixed_suite_digest():
        revised_leg = leg("bringup", changes.pop("mode", "eager"))
    revised_leg["facts"]["torch"]["revision"] = COMMIT
    return {**revised_leg, **changes}


def completed_callback_body(*legs, occasion=None):
    return relay.completed_callback(legs, JOB, occasion or RelayEvent(), NOW)


def test_the_callback_of_a_passing_run():
    relay_body = completed_callback_body(relay_leg())
    workflow = relay_body["workflow"]
    assert (relay_body["delivery_id"], relay_body["event_type"]) == (COMMIT, "nightly")
    assert relay_body["payload"] == {"repository": {"full_name": "pytorch/pytorch"}, "head_sha": COMMIT}
    assert (workflow["status"], workflow["conclusion"]) == ("completed", "success")
    assert workflow["test_results"] == {"passed": 82, "failed": 0, "skipped": 0}
    assert workflow["failed_tests_detail"] == []
    assert workflow["check_run_id"] == "1-1"


def test_a_scheduled_run_reports_its_duration():
    """A scheduled run sends only one callback, which contains the duration. For a dispatched run the relay
    computes the duration from two callbacks.
    """
    workflow = completed_callback_body(
        relay_leg(), relay_leg(mode="lazy", started="2026-01-08T23:00:00+02:00")
    )["workflow"]
    assert (workflow["started_at"], workflow["completed_at"]) == (
        "2026-01-02T03:04:05Z",
        "2026-01-09T00:00:00Z",
    )
    dispatched = RelayEvent("pull_request", "d", PULL["payload"])
    assert completed_callback_body(relay_leg(), occasion=dispatched)["workflow"]["started_at"] is None
    assert completed_callback_body(relay_leg(started="yesterday"))["workflow"]["started_at"] is None
    assert completed_callback_body(relay_leg(started="2026-01-01T00:00:00"))["workflow"]["started_at"] is None


@pytest.mark.parametrize(
    ("verdict", "count"),
    [
        *(
            (verdict, "failed")
            for verdict in ("fail", "error", "crash", "timeout", "vacuous", "xpass", "flaky")
        ),
        *((verdict, "skipped") for verdict in ("unsupported", "xfail")),
    ],
)
def test_only_verdict_pass_is_reported_as_passed(verdict, count):
    base_leg = relay_leg()
    name = base_leg["results"][0]["id"]
    workflow = completed_callback_body(with_rows(base_leg, {name: {"verdict": verdict}}))["workflow"]
    assert workflow["test_results"][count] == 1
    assert workflow["test_results"]["passed"] == 81
    if count == "failed":
        assert workflow["conclusion"] == "failure"
        (detail,) = workflow["failed_tests_detail"]
        assert detail["name"] == f"eager::{name}" and detail["duration"] == 0.1
        assert detail["classname"] == name.partition("/")[0]


def test_incomplete_and_refused_legs_are_failures():
    cut = relay_leg(complete=False, exit=3, missing={"count": 5, "first": []})
    assert completed_callback_body(cut)["workflow"]["test_results"]["failed"] == 5
    refused = relay_leg(complete=False, exit=2, results=[])
    assert completed_callback_body(relay_leg(), refused)["workflow"]["conclusion"] == "failure"
    assert relay.run_conclusion([]) == "failure"


def test_details_are_limited_and_contain_no_paths():
    large_leg = relay_leg()
    failure = {
        "kind": "value",
        "message": "é" * 2000 + " /home/jane/x",
        "traceback": "/home/jane/y.py:1 " * 900,
    }
    rows = {row["id"]: {"verdict": "fail", "failures": [failure]} for row in large_leg["results"]}
    details = completed_callback_body(with_rows(large_leg, rows))["workflow"]["failed_tests_detail"]
    assert len(details) == 82
    for detail in details:
        assert len(detail["message"].encode()) <= 1024 and len(detail["stacktrace"].encode()) <= 4096
        assert "jane" not in json.dumps(detail)


def test_more_failures_than_the_relay_accepts():
    """If the run has more failures than the relay accepts, all are counted, and as many as fit are listed."""
    large_leg = relay_leg()
    for size, most in ((10, 1000), (5000, 300)):
        failure = {"kind": "value", "message": "x", "traceback": "y" * size}
        large_leg["results"] = [
            {"id": f"value/op{i}@float32", "verdict": "fail", "seconds": 0.0, "failures": [failure]}
            for i in range(1500)
        ]
        workflow = completed_callback_body(large_leg)["workflow"]
        assert workflow["test_results"]["failed"] == 1500
        assert len(workflow["failed_tests_detail"]) <= most
        assert len(workflow["failed_tests_detail"]) > 100


def test_a_run_of_a_different_commit_is_not_reported_for_the_event():
    payload = {"pull_request": {"head": {"sha": OTHER}}}
    with pytest.raises(UsageError, match=f"tested commit {COMMIT}.*requests {OTHER}"):
        completed_callback_body(relay_leg(), occasion=RelayEvent("pull_request", "d", payload))


def test_the_callback_contains_the_event_unchanged():
    relay_body = completed_callback_body(
        relay_leg(), occasion=RelayEvent("push", "d", {"after": COMMIT, "ref": "refs/heads/main"})
    )
    assert (relay_body["event_type"], relay_body["delivery_id"]) == ("push", "d")
    assert relay_body["payload"] == {"after": COMMIT, "ref": "refs/heads/main"}


def test_the_name_of_a_job_contains_level_modes_and_build():
    assert (
        relay.job_name([relay_leg(), relay_leg(mode="lazy")])
        == "conformance bringup / eager+lazy / torch 2.13.0+cpu"
    )


def relay_command(tmp_path, *more, run=True):
    run_arguments = [str(tmp_path / "run")] if run else []
    rest = ["--name", "nightly", "--url", "https://x/1", "--run-id", "12", *more]
    return ["relay", *run_arguments, "-o", str(tmp_path / "new" / "relay.json"), *rest]


@pytest.fixture
def run_folder(tmp_path):
    with fixed_suite_digest():
        write_output_folder(tmp_path / "run", relay_leg())
    (tmp_path / "event.json").write_text(json.dumps({"action": "x", "client_payload": PULL}))
    (tmp_path / "payload.json").write_text(json.dumps(PULL))
    return tmp_path


def written_callback(tmp_path):
    return json.loads((tmp_path / "new" / "relay.json").read_text())


def test_the_relay_command_writes_a_callback(run_folder, capsys):
    assert cli.main(relay_command(run_folder)) == 0
    assert written_callback(run_folder)["workflow"]["run_id"] == "12"
    assert "success, conformance bringup / eager / torch" in capsys.readouterr().out
    assert cli.main(relay_command(run_folder, "--event", "periodic")) == 0
    assert written_callback(run_folder)["event_type"] == "periodic"


@pytest.mark.parametrize("file", ["event.json", "payload.json"])
def test_both_callbacks_about_a_pull_request(file, run_folder):
    event = ["--event", str(run_folder / file)]
    assert (
        cli.main(relay_command(run_folder, *event, "--status", "in_progress", "--job", "e", run=False)) == 0
    )
    first = written_callback(run_folder)
    assert first["workflow"]["conclusion"] is first["workflow"]["completed_at"] is None
    assert first["workflow"]["started_at"].endswith("Z") and "test_results" not in first["workflow"]
    assert cli.main(relay_command(run_folder, *event, "--check-run-id", "77")) == 0
    second = written_callback(run_folder)
    assert second["workflow"]["check_run_id"] == "77"
    for key in ("event_type", "delivery_id", "payload"):
        assert first[key] == second[key] == PULL[key]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--run-id", "x; y"], "--run-id 'x; y' is not a number"),
        (["--check-run-id", "1x"], "is not a number"),
        (["--url", "javascript:x"], "is not an https address"),
        (["--url", ""], "is not an https address"),
        (["--url", "https://x y"], "the relay would reject workflow.url"),
        (["--job", " "], "the relay would reject workflow.job_name"),
        (["--job", "x" * 1001], "has 1001 of at most 1000 characters"),
        (["--status", "in_progress"], "does not accept an in_progress callback of a nightly run"),
        (["--event", "absent.json"], "cannot be read"),
        (["--status", "in_progress", "--event", "EVENT"], "--job is missing"),
    ],
)
def test_arguments_that_the_relay_would_reject(more, message, run_folder, capsys):
    more = [str(run_folder / "event.json") if argument == "EVENT" else argument for argument in more]
    assert cli.main(relay_command(run_folder, *more)) == 2
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err
    assert not (run_folder / "new").exists()


def test_a_run_without_its_folder(tmp_path, capsys):
    assert cli.main(relay_command(tmp_path, run=False)) == 2
    assert "the folder of the run is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        "[]",
        "null",
        "{}",
        '{"client_payload": []}',
        '{"client_payload": {"event_type": ["push"]}}',
        '{"event_type": "check_run", "delivery_id": "d", "payload": {}}',
        '{"event_type": "push", "delivery_id": 1, "payload": {}}',
        '{"event_type": "push", "delivery_id": "d", "payload": {"after": "HEAD"}}',
        '{"event_type": "pull_request", "delivery_id": "d", "payload": {"pull_request": {"head": []}}}',
    ],
)
def test_invalid_events_are_usage_errors(text, tmp_path):
    (tmp_path / "event.json").write_text(text)
    with pytest.raises(UsageError, match="event "):
        relay.read_event(tmp_path / "event.json")


def test_unknown_commits_and_several_builds_are_usage_errors(tmp_path, capsys):
    local_leg = relay_leg()
    local_leg["facts"]["torch"]["revision"] = None
    with fixed_suite_digest():
        write_output_folder(tmp_path / "run", local_leg)
    assert cli.main(relay_command(tmp_path)) == 2
    assert "the commit of torch is unknown" in capsys.readouterr().err
    local_leg["facts"]["torch"]["revision"] = OTHER
    with pytest.raises(UsageError, match="2 builds"):
        completed_callback_body(relay_leg(), local_leg)
    with pytest.raises(UsageError, match="no leg"):
        completed_callback_body()


@pytest.mark.parametrize(
    "changes", [{"selection": "value/add", "left_out": 3}, {"shard": "1/4"}, {"results": [], "totals": {}}]
)
def test_a_restricted_run_is_not_a_success(changes):
    assert relay.run_conclusion([relay_leg()]) == "success"
    assert relay.run_conclusion([relay_leg(**changes)]) == "failure"
