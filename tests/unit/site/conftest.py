"""A folder of results for the site."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.results import document

Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Function that lays legs into the folder of results as a run of a backend, and returns that folder."""

    def lay(
        backend: str,
        run: str,
        *legs: dict[str, Any],
        provenance: dict[str, Any] | None = None,
        table: dict[str, Any] | None = None,
    ) -> Path:
        place = tmp_path / "results" / backend / run
        place.mkdir(parents=True)
        document.write(place / "results.json", document.document(list(legs)))
        if provenance is not None:
            (place / "provenance.json").write_text(json.dumps(provenance))
        if table is not None:
            (place / "matrix.json").write_text(json.dumps(table))
        return tmp_path / "results"

    return lay
