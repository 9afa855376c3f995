"""The manifest reader accepts each generated manifest or rejects it with a short UsageError."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from conformance.plan.levels import manifest as manifests
from tests.support.fuzz import FUZZ, corrupted_documents, is_accepted, temporary_file


def test_generated_manifests_are_accepted_or_rejected() -> None:
    whole = json.loads(manifests.PATH.read_text())
    small = {
        key: value[:3]
        if isinstance(value, list)
        else dict(list(value.items())[:3])
        if isinstance(value, dict)
        else value
        for key, value in whole.items()
    }

    @FUZZ
    @given(corrupted_documents(small))
    def load_generated_manifest(data: Any) -> None:
        path = temporary_file("manifest.json", json.dumps(data).encode())
        is_accepted(lambda: manifests.load(path))

    load_generated_manifest()
