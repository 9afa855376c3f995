"""The summary of a job tells what is not as expected, whatever a device has called it."""

from __future__ import annotations

import pytest
from certifiable import folder, leg, settled

from conformance.ci import summary
from conformance.cli import main


def broken(count):
    found = leg("bringup")
    for row in found["results"][:count]:
        row["verdict"] = "fail"
    return found


def test_a_good_leg_is_one_row():
    text = summary.markdown([leg("bringup")], "job")
    assert "mine, eager, torch" in text and "not as expected" not in text


def test_what_is_wrong_is_named():
    found = broken(3)
    text = summary.markdown([leg("bringup"), found], "job")
    assert "3 results not as expected" in text and text.count("\n- fail: ") == 3
    assert summary.escaped(found["results"][0]["id"]) in text


def test_a_flood_is_cut_and_counted():
    text = summary.markdown([broken(50)], "job")
    assert text.count("\n- fail: ") == 20 and "- and 30 more" in text


def test_words_of_others_mean_nothing_in_it():
    found = leg("bringup")
    found["problems"] = ["<script>\n## a | [x](http://y) @owner"]
    text = summary.markdown([found], "a | b\n# c")
    assert "<script>" not in text and "[x](" not in text and " @owner" not in text
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
