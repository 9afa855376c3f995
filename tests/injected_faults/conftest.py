"""The fixture `folder_and_monkeypatch`, which lets the rank processes of a test import injected faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.distributed import worker_ranks
from tests.support import python_path


@pytest.fixture()
def folder_and_monkeypatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, pytest.MonkeyPatch]]:
    """Return a folder for target files, and a monkeypatch. PYTHONPATH contains the package ``tests``, so the
    rank processes of the test can import the faults. After the test, kill all rank pools.
    """
    monkeypatch.setenv("PYTHONPATH", python_path())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield tmp_path, monkeypatch
    for pool in worker_ranks._pools.values():
        pool.kill()
    worker_ranks._pools.clear()
