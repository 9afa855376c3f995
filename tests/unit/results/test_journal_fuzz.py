"""Whatever a journal holds, it is read or refused in one sentence."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conformance.expectations import entries
from conformance.results import document as results
from conformance.results import journal
from tests.support.fuzz import FUZZ, TREES, taken_or_refused, written


@FUZZ
@given(st.lists(st.one_of(TREES, st.just({"event": "result"})), max_size=5), st.binary(max_size=60))
def test_journals(events: list[Any], tail: bytes) -> None:
    lines = b"\n".join(json.dumps(event, separators=(",", ":")).encode() for event in events)
    path = written("journal.jsonl", lines + b"\n" + tail)
    taken_or_refused(lambda: journal.read(path))
    book = entries.TargetExpectations((), "")
    taken_or_refused(lambda: results.from_journal(path, book))
