"""``worker.continued_cases`` determines which results of a continued case have begun."""

from __future__ import annotations

from pathlib import Path

from conformance.results.journal import Journal
from conformance.worker import continued_cases
from conformance.worker.continued_cases import BegunResults


def write_begin_events(journal: Journal, *results: str, attempt: int = 1) -> None:
    for result_id in results:
        journal.write("dtype", worker="w", id=result_id, attempt=attempt)


def test_results_that_have_begun_are_included_after_the_mark(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    write_begin_events(journal, "p/s@int64", "p/s2@int64")
    begun, begun_again = BegunResults(tmp_path, 1), BegunResults(tmp_path, 2)
    assert not begun.includes_result("a::x[p/s]", "p/s@int64")
    continued_cases.mark_as_continued(tmp_path, "a::x[p/s]")
    assert begun.includes_result("a::x[p/s]", "p/s@int64") and not begun.includes_result(
        "a::x[p/s]", "p/s@float32"
    )
    assert not begun.includes_result("b::x[p/s]", "p/s@int64") and not begun_again.includes_result(
        "a::x[p/s]", "p/s@int64"
    )
    write_begin_events(journal, "p/s@float32")
    assert begun.includes_result("a::x[p/s]", "p/s@float32") and begun.includes_result(
        "a::x[p/s]", "p/s@int64"
    )
    continued_cases.remove_marks(tmp_path)
    assert not begun.includes_result("a::x[p/s]", "p/s@int64")
    continued_cases.remove_marks(tmp_path)  # accepts that no mark is left
