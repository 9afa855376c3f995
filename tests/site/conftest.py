"""Folders of results for the site, made up run by run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from certifiable import leg, settled, summed, with_rows

from conformance import results

Put = Callable[..., Path]
TODAY = "2026-01-10"


def made(**changes: Any) -> dict[str, Any]:
    """A whole leg of level bringup that passed on 2026-01-09."""
    kind = changes.pop("kind", "public")
    with settled():
        found = leg("bringup", changes.pop("mode", "eager"))
    found["started"] = "2026-01-09T03:04:05+00:00"
    found["facts"]["torch"]["kind"] = kind
    return {**found, **changes}


def failing(found: dict[str, Any], *places: int, message: str = "wrong") -> dict[str, Any]:
    """A leg in which the rows at these places failed."""
    row = {"verdict": "fail", "failures": [{"kind": "value", "message": message}], "failure_count": 1}
    found = with_rows(found, {found["results"][place]["id"]: row for place in places})
    found["exit"] = 1
    return found


def refused(mode: str = "lazy") -> dict[str, Any]:
    """A leg of a backend that did not start."""
    found = summed({**made(mode=mode), "results": []})
    return {**found, "exit": 2, "complete": False, "problems": ["it needs a fork-like torch"], "planned": 0}


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Function that lays legs into the folder of results as a run of a backend, and returns that folder."""

    def lay(backend: str, run: str, *legs: dict[str, Any], provenance: dict[str, Any] | None = None) -> Path:
        place = tmp_path / "results" / backend / run
        place.mkdir(parents=True)
        results.write(place / "results.json", results.document(list(legs)))
        if provenance is not None:
            (place / "provenance.json").write_text(json.dumps(provenance))
        return tmp_path / "results"

    return lay
