"""Announcements of oracle values."""

from __future__ import annotations

from pathlib import Path

from conformance.oracle import announcements
from conformance.results import journal


def test_announcements_reach_the_journal_of_a_run_only(tmp_path: Path) -> None:
    assert not announcements.wanted()
    announcements.announce("mul", "float32", 0, "d0")
    writer = journal.Journal(tmp_path / "journal.jsonl")
    announcements.send_to(journal.oracle_events(writer))
    try:
        announcements.announce("add", "float32", 1, "d1")
    finally:
        announcements.send_to(None)
    expected = {"event": "oracle", "op": "add", "dtype": "float32", "index": 1, "digest": "d1"}
    assert journal.read(writer.path)[0] == [expected]
