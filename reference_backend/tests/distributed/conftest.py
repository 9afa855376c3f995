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

    ``fails``: ranks that may exit with any code. ``kill_after``: seconds after which the ranks are killed.
    """

    def run_and_assert_success(function, size=2, *, kill_after=90, timeout=60, fails=(), **environment):
        rendezvous_file = tmp_path / f"rendezvous-{time.monotonic_ns()}"
        ended = run_ranks(
            request.path,
            function.__name__,
            size,
            rendezvous_file,
            kill_after=kill_after,
            timeout=timeout,
            environment=environment,
        )
        for rank, process in enumerate(ended):
            if rank not in fails:
                assert process.code == 0, f"rank {rank}:\n{process.text[-3000:]}"
        return ended

    return run_and_assert_success
