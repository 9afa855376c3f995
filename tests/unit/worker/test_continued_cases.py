"""``worker.continued_cases`` names the results of a continued case that have begun."""

from __future__ import annotations

from pathlib import Path

from conformance.results.journal import Journal
from conformance.worker import continued_cases


def begin(journal: Journal, *results: str, attempt: int = 1) -> None:
    for result_id in results:
        journal.write("dtype", worker="w", id=result_id, attempt=attempt)


def test_results_that_have_begun_are_named_after_the_mark(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    begin(journal, "p/s@int64", "p/s2@int64")
    assert continued_cases.results_begun(tmp_path, "test_a.py", "p/s", 1) == set()
    continued_cases.mark(tmp_path, "test_a.py", "p/s")
    assert continued_cases.results_begun(tmp_path, "test_a.py", "p/s", 1) == {"p/s@int64"}
    assert continued_cases.results_begun(tmp_path, "test_a.py", "p/s", 2) == set()
    assert continued_cases.results_begun(tmp_path, "test_b.py", "p/s", 1) == set()
    begin(journal, "p/s@float32")
    assert continued_cases.results_begun(tmp_path, "test_a.py", "p/s", 1) == {"p/s@int64", "p/s@float32"}
    continued_cases.remove_marks(tmp_path)
    assert continued_cases.results_begun(tmp_path, "test_a.py", "p/s", 1) == set()
    continued_cases.remove_marks(tmp_path)  # nothing is left to remove
