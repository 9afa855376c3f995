"""Whatever a manifest holds, it is taken or refused in one sentence."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from conformance.plan.levels import manifest as manifests
from tests.support.fuzz import FUZZ, spoiled, taken_or_refused, written


def test_manifests() -> None:
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
    @given(spoiled(small))
    def fuzz(data: Any) -> None:
        path = written("manifest.json", json.dumps(data).encode())
        taken_or_refused(lambda: manifests.load(path))

    fuzz()
