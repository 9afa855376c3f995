"""Fixture that runs ranks in separate processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.ranks import FinishedRank, run_ranks


@pytest.fixture
def on_ranks(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., list[FinishedRank]]:
    """Return a function that runs a function of the test module on several ranks, and asserts exit code 0.

    ``fails``: ranks that may exit with any code. ``limit``: seconds after which the ranks are killed.
    """

    def run_and_assert_success(function, size=2, *, limit=90, timeout=60, fails=(), **environment):
        meeting = tmp_path / f"meeting-{time.monotonic_ns()}"
        ended = run_ranks(
            request.path,
            function.__name__,
            size,
            meeting,
            limit=limit,
            timeout=timeout,
            environment=environment,
        )
        for rank, process in enumerate(ended):
            if rank not in fails:
                assert process.code == 0, f"rank {rank}:\n{process.text[-3000:]}"
        return ended

    return run_and_assert_success
