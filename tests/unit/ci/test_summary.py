"""The summary of a workflow job lists unexpected results. Markup in texts of a backend is escaped."""

from __future__ import annotations

import json

import pytest

from conformance.ci import step_outputs, summary
from conformance.cli import main
from tests.support.sample_passing_leg import fixed_suite_digest, leg, write_output_folder


def leg_with_failures(count):
    broken_leg = leg("bringup")
    for row in broken_leg["results"][:count]:
        row["verdict"] = "fail"
    return broken_leg


def test_a_good_leg_is_one_row():
    text = summary.summary_markdown([leg("bringup")], "job")
    assert "mine, eager, torch" in text and "not as expected" not in text


def test_unexpected_results_are_listed():
    broken_leg = leg_with_failures(3)
    text = summary.summary_markdown([leg("bringup"), broken_leg], "job")
    assert "3 results not as expected" in text and text.count("\n- fail: ") == 3
    assert f"`{broken_leg['results'][0]['id']}`" in text


def test_a_long_list_is_cut_and_counted():
    text = summary.summary_markdown([leg_with_failures(50)], "job")
    assert text.count("\n- fail: ") == 20 and "- and 30 more" in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"missing": {"count": 79, "first": []}, "complete": False, "exit": 3}, "79 results are missing"),
        ({"complete": False, "exit": 3}, "the run is not complete (exit 3)"),
        ({"oracle": {"checked": 3, "differences": ["x"]}}, "1 oracle values differ without the backend"),
    ],
)
def test_an_incomplete_leg_is_reported(changes, says):
    assert f"- `{says}`" in summary.summary_markdown([{**leg("bringup"), **changes}], "job")


def test_a_lone_surrogate_does_not_stop_the_summary(tmp_path, step_outputs_file):
    damaged_leg = leg("bringup")
    damaged_leg["problems"] = ["file 'a\udcff' is damaged"]
    step_outputs.add_summary(summary.summary_markdown([damaged_leg], "job"))
    assert "is damaged" in (tmp_path / "summary.md").read_text()


def test_markup_in_third_party_text_is_escaped():
    hostile_leg = leg("bringup")
    hostile_leg["problems"] = ["`x` <script>\n## a | [x](http://y) @owner #12"]
    text = summary.summary_markdown([hostile_leg], "a | b\n# c www.example.org <b>")
    assert "- `'x' <script> ## a | [x](http://y) @owner #12`\n" in text
    assert "www." not in text and "<b>" not in text
    assert sum(line.startswith("#") for line in text.splitlines()) == 1


@pytest.mark.parametrize("commit", ["abc", "a" * 40])
def test_the_step_writes_the_summary_and_the_relay_report(commit, tmp_path, step_outputs_file, capsys):
    """``conformance ci report`` writes the summary. It writes no relay report if the commit of torch is
    unknown, as for a local build.
    """
    bringup_leg = leg("bringup")
    bringup_leg["facts"]["torch"]["revision"] = commit
    bringup_leg["digests"]["torch"] = f"{bringup_leg['torch']} {commit}"
    with fixed_suite_digest():
        write_output_folder(tmp_path / "out", bringup_leg)
        assert main(["ci", "report", str(tmp_path / "out"), "--job", "measure"]) == 0
    assert "mine, eager" in (tmp_path / "summary.md").read_text()
    relayed = len(commit) == 40
    assert (tmp_path / "out" / "relay.json").exists() == relayed
    assert (
        "relay.json was not written: the commit of torch is unknown" in capsys.readouterr().out
    ) != relayed


def test_the_relay_report_answers_the_event_that_started_the_workflow(
    tmp_path, step_outputs_file, monkeypatch, capsys
):
    """If the relay started the workflow, the relay report answers the relay's event. Nothing is reported for
    an event with a different commit or type.
    """
    bringup_leg = leg("bringup")
    bringup_leg["facts"]["torch"]["revision"] = "a" * 40
    with fixed_suite_digest():
        write_output_folder(tmp_path / "out", bringup_leg)
    event = tmp_path / "event.json"
    monkeypatch.setenv("GITHUB_EVENT_NAME", "repository_dispatch")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    for commit, kind in (("a" * 40, "push"), ("b" * 40, "push"), ("a" * 40, "other")):
        payload = {"event_type": kind, "delivery_id": "d", "payload": {"after": commit}}
        event.write_text(json.dumps({"client_payload": payload}))
        (tmp_path / "out" / "relay.json").unlink(missing_ok=True)
        assert main(["ci", "report", str(tmp_path / "out"), "--job", "measure"]) == 0
        relayed = (commit, kind) == ("a" * 40, "push")
        assert (tmp_path / "out" / "relay.json").exists() == relayed
        assert ("relay.json was not written" in capsys.readouterr().out) != relayed
    event.write_text(json.dumps({"client_payload": {**payload, "event_type": "push"}}))
    assert main(["ci", "report", str(tmp_path / "out"), "--job", "measure"]) == 0
    assert json.loads((tmp_path / "out" / "relay.json").read_text())["event_type"] == "push"
