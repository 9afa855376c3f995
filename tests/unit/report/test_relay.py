"""The report for PyTorch's cross-repository CI: nothing that did not pass is reported as passed."""

from __future__ import annotations

import json

import pytest

from conformance import cli
from conformance.report import relay
from tests.support.certifiable import folder, leg, settled, with_rows

COMMIT = "cf30153c4c131c8164ee7798e5022d810682e2cb"
REST = {"name": "nightly", "job": "eager", "url": "https://x/1", "run_id": "1", "run_attempt": "1"}


def made(**changes):
    with settled():
        found = leg("bringup", changes.pop("mode", "eager"))
    found["facts"]["torch"]["revision"] = COMMIT
    return {**found, **changes}


def body(*legs):
    return relay.payload(legs, completed="2026-01-09T00:00:00+00:00", **REST)


def test_a_run_that_passed():
    found = body(made())
    assert (found["delivery_id"], found["event_type"]) == (COMMIT, "nightly")
    assert (found["workflow"]["status"], found["workflow"]["conclusion"]) == ("completed", "success")
    assert found["workflow"]["test_results"] == {"passed": 82, "failed": 0, "skipped": 0}
    assert found["failed_tests_detail"] == []


@pytest.mark.parametrize(
    ("verdict", "count"),
    [
        *((word, "failed") for word in ("fail", "error", "crash", "timeout", "vacuous", "xpass", "flaky")),
        *((word, "skipped") for word in ("unsupported", "xfail")),
    ],
)
def test_every_verdict_but_pass_is_no_pass(verdict, count):
    one = made()
    name = one["results"][0]["id"]
    one = with_rows(one, {name: {"verdict": verdict}})
    found = body(one)
    assert found["workflow"]["test_results"][count] == 1
    assert found["workflow"]["test_results"]["passed"] == 81
    if count == "failed":
        assert found["workflow"]["conclusion"] == "failure"
        assert [detail["name"] for detail in found["failed_tests_detail"]] == [f"eager::{name}"]


def test_what_is_missing_or_did_not_start_is_a_failure():
    cut = made(complete=False, exit=3, missing={"count": 5, "first": []})
    assert body(cut)["workflow"]["test_results"]["failed"] == 5
    refused = made(complete=False, exit=2, results=[])
    assert body(made(), refused)["workflow"]["conclusion"] == "failure"


def test_sizes_and_paths():
    one = made()
    failure = {
        "kind": "value",
        "message": "é" * 2000 + " /home/jane/x",
        "traceback": "/home/jane/y.py:1 " * 900,
    }
    rows = {row["id"]: {"verdict": "fail", "failures": [failure]} for row in one["results"]}
    found = body(with_rows(one, rows))
    for detail in found["failed_tests_detail"]:
        assert len(detail["message"].encode()) <= 1024 and len(detail["stack"].encode()) <= 4096
        assert "jane" not in json.dumps(detail)


def test_the_command(tmp_path, capsys):
    with settled():
        folder(tmp_path / "run", made())
    arguments = [
        "relay",
        str(tmp_path / "run"),
        "-o",
        str(tmp_path / "new" / "relay.json"),
        "--name",
        "nightly",
    ]
    arguments += ["--job", "eager", "--url", "https://x/1", "--run-id", "12"]
    assert cli.main(arguments) == 0
    assert json.loads((tmp_path / "new" / "relay.json").read_text())["workflow"]["run_id"] == "12"
    for wrong in (["--run-id", "x; y"], ["--url", "javascript:x"], ["--url", ""]):
        assert cli.main([*arguments, *wrong]) == 2


def test_builds_without_a_commit_and_several_at_once(tmp_path, capsys):
    one = made()
    one["facts"]["torch"]["revision"] = None
    with settled():
        folder(tmp_path / "run", one)
    arguments = ["relay", str(tmp_path / "run"), "-o", str(tmp_path / "r"), "--name", "n", "--job", "j"]
    assert cli.main([*arguments, "--url", "https://x", "--run-id", "1"]) == 2
    assert "does not say its commit" in capsys.readouterr().err
