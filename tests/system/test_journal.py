"""Processes that append to one journal at the same time do not mix their lines."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from conformance.results import journal


def _append_many_events(path: Path, name: str) -> None:
    writer = journal.Journal(path)
    for index in range(300):
        writer.write("result", name=name, index=index, text="x" * 5000)


def test_processes_that_append_at_once_never_mix_lines(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_many_events, args=(path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    events, damaged = journal.read_journal(path)
    assert (len(events), damaged) == (600, 0)
