"""The fixture ``write_backend_run``: it writes runs into the results folder of the site."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.results import document

Put = Callable[..., Path]


@pytest.fixture
def write_backend_run(tmp_path: Path) -> Put:
    """Return a function ``(backend, run, *legs)`` that writes the legs as a run of the backend. It returns
    the results folder of all backends.
    """

    def write_run(
        backend: str,
        run: str,
        *legs: dict[str, Any],
        provenance: dict[str, Any] | None = None,
        table: dict[str, Any] | None = None,
    ) -> Path:
        run_folder = tmp_path / "results" / backend / run
        run_folder.mkdir(parents=True)
        document.write_results(run_folder / "results.json", document.results_document(list(legs)))
        if provenance is not None:
            (run_folder / "provenance.json").write_text(json.dumps(provenance))
        if table is not None:
            (run_folder / "matrix.json").write_text(json.dumps(table))
        return tmp_path / "results"

    return write_run
