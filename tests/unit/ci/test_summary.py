"""The summary of a job names what is not as expected, whatever a device has called it."""

from __future__ import annotations

import json

import pytest

from conformance.ci import step_outputs, summary
from conformance.cli import main
from tests.support.sample_passing_leg import folder, leg, settled


def broken(count):
    found = leg("bringup")
    for row in found["results"][:count]:
        row["verdict"] = "fail"
    return found


def test_a_good_leg_is_one_row():
    text = summary.summary_markdown([leg("bringup")], "job")
    assert "mine, eager, torch" in text and "not as expected" not in text


def test_what_is_wrong_is_named():
    found = broken(3)
    text = summary.summary_markdown([leg("bringup"), found], "job")
    assert "3 results not as expected" in text and text.count("\n- fail: ") == 3
    assert f"`{found['results'][0]['id']}`" in text


def test_a_flood_is_cut_and_counted():
    text = summary.summary_markdown([broken(50)], "job")
    assert text.count("\n- fail: ") == 20 and "- and 30 more" in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"missing": {"count": 79, "first": []}, "complete": False, "exit": 3}, "79 results are missing"),
        ({"complete": False, "exit": 3}, "the run is not complete (exit 3)"),
        ({"oracle": {"checked": 3, "differences": ["x"]}}, "1 oracle values differ without the backend"),
    ],
)
def test_a_leg_that_is_not_whole_is_named(changes, says):
    assert f"- `{says}`" in summary.summary_markdown([{**leg("bringup"), **changes}], "job")


def test_half_a_character_is_no_end(tmp_path, outputs):
    found = leg("bringup")
    found["problems"] = ["file 'a\udcff' is damaged"]
    step_outputs.add_summary(summary.summary_markdown([found], "job"))
    assert "is damaged" in (tmp_path / "summary.md").read_text()


def test_words_of_others_mean_nothing_in_it():
    found = leg("bringup")
    found["problems"] = ["`x` <script>\n## a | [x](http://y) @owner #12"]
    text = summary.summary_markdown([found], "a | b\n# c www.example.org <b>")
    assert "- `'x' <script> ## a | [x](http://y) @owner #12`\n" in text
    assert "www." not in text and "<b>" not in text
    assert sum(line.startswith("#") for line in text.splitlines()) == 1


@pytest.mark.parametrize("commit", ["abc", "a" * 40])
def test_it_is_what_the_step_writes(commit, tmp_path, outputs, capsys):
    """Also for a torch of one's own that says no commit, without which there is no report for the relay."""
    found = leg("bringup")
    found["facts"]["torch"]["revision"] = commit
    found["digests"]["torch"] = f"{found['torch']} {commit}"
    with settled():
        folder(tmp_path / "out", found)
        assert main(["ci", "report", str(tmp_path / "out"), "--job", "measure"]) == 0
    assert "mine, eager" in (tmp_path / "summary.md").read_text()
    relayed = len(commit) == 40
    assert (tmp_path / "out" / "relay.json").exists() == relayed
    assert ("there is no relay.json: torch does not say its commit" in capsys.readouterr().out) != relayed


def test_in_a_workflow_that_the_relay_began_its_event_is_answered(tmp_path, outputs, monkeypatch, capsys):
    """And nothing is reported as a nightly run if the event is about another commit, or of someone else."""
    found = leg("bringup")
    found["facts"]["torch"]["revision"] = "a" * 40
    with settled():
        folder(tmp_path / "out", found)
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
        assert ("there is no relay.json" in capsys.readouterr().out) != relayed
    event.write_text(json.dumps({"client_payload": {**payload, "event_type": "push"}}))
    assert main(["ci", "report", str(tmp_path / "out"), "--job", "measure"]) == 0
    assert json.loads((tmp_path / "out" / "relay.json").read_text())["event_type"] == "push"
