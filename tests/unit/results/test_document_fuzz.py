"""The reader of results documents accepts each generated document or rejects it with a short UsageError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.results import document as results
from tests.support.fuzz import FUZZ, corrupted_documents, is_accepted, temporary_file
from tests.support.sample_passing_leg import varied_results


@pytest.fixture(scope="module")
def results_document() -> dict[str, Any]:
    """Return a results document that contains every optional field."""
    return varied_results()


def test_generated_documents_are_accepted_or_rejected(results_document: dict[str, Any]) -> None:
    @FUZZ
    @given(corrupted_documents(results_document))
    def read_generated_document(data: Any) -> None:
        path = temporary_file("results.json", json.dumps(data).encode())
        is_accepted(lambda: results.read_results(path))

    read_generated_document()


def test_random_bytes_are_rejected_cleanly() -> None:
    @FUZZ
    @given(st.binary(max_size=300) | st.integers(1, 5000).map(lambda depth: b"[" * depth))
    def read_random_bytes(data: bytes) -> None:
        path = temporary_file("results.json", data)
        assert not is_accepted(lambda: results.read_results(path))

    read_random_bytes()
