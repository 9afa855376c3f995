"""Whatever results hold, they are taken or refused in one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.results import document as results
from tests.support.fuzz import FUZZ, spoiled, taken_or_refused, written
from tests.support.sample_passing_leg import varied_results


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Results with something of everything."""
    return varied_results()


def test_results(document: dict[str, Any]) -> None:
    @FUZZ
    @given(spoiled(document))
    def fuzz(data: Any) -> None:
        path = written("results.json", json.dumps(data).encode())
        taken_or_refused(lambda: results.read(path))

    fuzz()


def test_results_of_any_bytes() -> None:
    @FUZZ
    @given(st.binary(max_size=300) | st.integers(1, 5000).map(lambda depth: b"[" * depth))
    def fuzz(data: bytes) -> None:
        path = written("results.json", data)
        assert not taken_or_refused(lambda: results.read(path))

    fuzz()
