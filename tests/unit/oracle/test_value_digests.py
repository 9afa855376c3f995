"""``oracle.value_digests`` sends digests of reference values only if a run writes a journal."""

from __future__ import annotations

from pathlib import Path

from conformance.oracle import value_digests
from conformance.results import journal


def test_digests_reach_only_the_journal_of_a_run(tmp_path: Path) -> None:
    assert not value_digests.has_digest_receiver()
    value_digests.send_digest("mul", "float32", 0, "d0")
    writer = journal.Journal(tmp_path / "journal.jsonl")
    value_digests.set_digest_receiver(journal.reference_digest_writer(writer))
    try:
        value_digests.send_digest("add", "float32", 1, "d1")
    finally:
        value_digests.set_digest_receiver(None)
    expected = {"event": "oracle", "op": "add", "dtype": "float32", "index": 1, "digest": "d1"}
    assert journal.read_journal(writer.path)[0] == [expected]
