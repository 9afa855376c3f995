"""Ranks that find their faults, and worlds that end with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.distributed import worker_ranks
from tests.support import python_path


@pytest.fixture()
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, pytest.MonkeyPatch]]:
    """A folder for target files, with ranks that find the faults; worlds end with the test."""
    monkeypatch.setenv("PYTHONPATH", python_path())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield tmp_path, monkeypatch
    for world in worker_ranks._worlds.values():
        world.kill()
    worker_ranks._worlds.clear()
