"""``results.journal`` skips damaged lines of a journal, and follows a journal while a run writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.expectations import entries
from conformance.results import document as results
from conformance.results import journal


@pytest.mark.parametrize(
    ("text", "events", "damaged"),
    [
        ('{"event":"a"}\n{"event":"b"}\n', 2, 0),
        ('{"event":"a"}\n{"event":"b","mess', 1, 1),
        ('{"event":"a","mess{"event":"b"}\n{"event":"c"}\n', 2, 1),
        ('{"event":"a","m":"{\\"event\\":1}"}\n\n', 1, 0),
        ("null\n[]\nnonsense\n", 0, 3),
    ],
)
def test_a_damaged_line_does_not_affect_other_lines(
    tmp_path: Path, text: str, events: int, damaged: int
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(text)
    read_events, count = journal.read_journal(path)
    assert (len(read_events), count) == (events, damaged)


def test_a_growing_journal_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    tail = journal.JournalTail(path)
    assert list(tail.read()) == []
    path.write_text('{"event":"a"}\n{"eve')
    assert [event["event"] for event in tail.read()] == ["a"]
    path.write_text('{"event":"a"}\n{"event":"b"}\n')
    assert [event["event"] for event in tail.read()] == ["b"]


def test_a_journal_whose_start_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"event":"run","mode":"eager"}\n{"event":"plan","cases":[[1]],"dtypes":[]}\n')
    with pytest.raises(UsageError, match="is damaged: "):
        results.leg_from_journal(path, entries.TargetExpectations((), ""))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        results.leg_from_journal(tmp_path / "none.jsonl", entries.TargetExpectations((), ""))
