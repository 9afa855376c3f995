"""The reader of journals accepts each generated journal or rejects it with a short UsageError."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conformance.expectations import entries
from conformance.results import document as results
from conformance.results import journal
from tests.support.fuzz import FUZZ, TREES, is_accepted, temporary_file


@FUZZ
@given(st.lists(st.one_of(TREES, st.just({"event": "result"})), max_size=5), st.binary(max_size=60))
def test_generated_journals_are_read_or_rejected(events: list[Any], tail: bytes) -> None:
    lines = b"\n".join(json.dumps(event, separators=(",", ":")).encode() for event in events)
    path = temporary_file("journal.jsonl", lines + b"\n" + tail)
    is_accepted(lambda: journal.read_journal(path))
    book = entries.TargetExpectations((), "")
    is_accepted(lambda: results.leg_from_journal(path, book))
