"""Announcements of oracle values."""

from __future__ import annotations

from pathlib import Path

from conformance.oracle import value_digests
from conformance.results import journal


def test_announcements_reach_the_journal_of_a_run_only(tmp_path: Path) -> None:
    assert not value_digests.wanted()
    value_digests.announce("mul", "float32", 0, "d0")
    writer = journal.Journal(tmp_path / "journal.jsonl")
    value_digests.send_to(journal.oracle_events(writer))
    try:
        value_digests.announce("add", "float32", 1, "d1")
    finally:
        value_digests.send_to(None)
    expected = {"event": "oracle", "op": "add", "dtype": "float32", "index": 1, "digest": "d1"}
    assert journal.read(writer.path)[0] == [expected]
