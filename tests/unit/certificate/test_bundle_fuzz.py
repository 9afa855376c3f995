"""Whatever a bundle holds, it is taken or refused in one sentence."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.certificate import bundle
from tests.support.fuzz import FUZZ, spoiled, taken_or_refused, written
from tests.support.sample_passing_leg import varied_results


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Results with something of everything."""
    return varied_results()


def test_bundles(document: dict[str, Any]) -> None:
    certificate = {"certificate": 1, "level": "core", "mode": "eager"}

    @FUZZ
    @given(
        spoiled(certificate),
        spoiled(document),
        st.sampled_from(["certificate.json", "../x", "/x", "a/b", "c\x00"]),
    )
    def fuzz(one: Any, other: Any, name: str) -> None:
        kept = io.BytesIO()
        with zipfile.ZipFile(kept, "w") as file:
            file.writestr(name, json.dumps(one))
            file.writestr("results.json", json.dumps(other))
        path = written("bundle.zip", kept.getvalue())
        taken_or_refused(lambda: bundle.read_bundle(path))

    fuzz()


@FUZZ
@given(st.binary(max_size=300))
def test_bundles_of_any_bytes(data: bytes) -> None:
    path = written("bundle.zip", data)
    assert not taken_or_refused(lambda: bundle.read_bundle(path))
