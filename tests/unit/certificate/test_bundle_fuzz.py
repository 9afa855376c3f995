"""Every generated bundle is either accepted or rejected with a one-sentence error."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.certificate import bundle
from tests.support.fuzz import FUZZ, corrupted, is_accepted, temporary_file
from tests.support.sample_passing_leg import varied_results


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return a results document that uses every optional field."""
    return varied_results()


def test_bundles(document: dict[str, Any]) -> None:
    certificate = {"certificate": 1, "level": "core", "mode": "eager"}

    @FUZZ
    @given(
        corrupted(certificate),
        corrupted(document),
        st.sampled_from(["certificate.json", "../x", "/x", "a/b", "c\x00"]),
    )
    def fuzz(certificate_like: Any, results_like: Any, name: str) -> None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            file.writestr(name, json.dumps(certificate_like))
            file.writestr("results.json", json.dumps(results_like))
        path = temporary_file("bundle.zip", buffer.getvalue())
        is_accepted(lambda: bundle.read_bundle(path))

    fuzz()


@FUZZ
@given(st.binary(max_size=300))
def test_bundles_of_any_bytes(data: bytes) -> None:
    path = temporary_file("bundle.zip", data)
    assert not is_accepted(lambda: bundle.read_bundle(path))
