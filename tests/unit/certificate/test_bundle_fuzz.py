"""The bundle reader accepts each generated bundle or rejects it with a short UsageError."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.certificate import bundle
from tests.support.fuzz import FUZZ, corrupted_documents, is_accepted, temporary_file
from tests.support.sample_passing_leg import varied_results


@pytest.fixture(scope="module")
def certificate_documents() -> dict[str, Any]:
    """Return a results document that contains every optional field."""
    return varied_results()


def test_generated_bundles_are_accepted_or_rejected(certificate_documents: dict[str, Any]) -> None:
    certificate = {"certificate": 1, "level": "core", "mode": "eager"}

    @FUZZ
    @given(
        corrupted_documents(certificate),
        corrupted_documents(certificate_documents),
        st.sampled_from(["certificate.json", "../x", "/x", "a/b", "c\x00"]),
    )
    def read_generated_bundle(certificate_like: Any, results_like: Any, name: str) -> None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            file.writestr(name, json.dumps(certificate_like))
            file.writestr("results.json", json.dumps(results_like))
        path = temporary_file("bundle.zip", buffer.getvalue())
        is_accepted(lambda: bundle.read_bundle(path))

    read_generated_bundle()


@FUZZ
@given(st.binary(max_size=300))
def test_random_bytes_are_rejected_cleanly(data: bytes) -> None:
    path = temporary_file("bundle.zip", data)
    assert not is_accepted(lambda: bundle.read_bundle(path))
