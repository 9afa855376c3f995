"""Ranks as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

MAIN = Path(__file__).parent / "rank_main.py"
REPOSITORY = Path(__file__).parents[2]


class Ended:
    """A rank that has ended."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        self.text = text


@pytest.fixture
def on_ranks(request, tmp_path) -> Callable[..., list[Ended]]:
    """Function that runs one of the test's module on several ranks, and asserts that all succeed.

    ``fails``: ranks that may end as they like. ``limit``: seconds after which the ranks are killed.
    """

    def run(function, size=2, *, limit=90, timeout=60, fails=(), **environment):
        meeting = tmp_path / f"meeting-{time.monotonic_ns()}"
        path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        processes = []
        for rank in range(size):
            variables = {
                **os.environ,
                "PYTHONPATH": path,
                "OMP_NUM_THREADS": "1",
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(size),
                **environment,
            }
            command = [sys.executable, str(MAIN), str(request.path), function.__name__]
            command += [str(rank), str(size), str(meeting), str(timeout)]
            processes.append(
                subprocess.Popen(
                    command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
            )
        end = time.monotonic() + limit
        ended = []
        for process in processes:
            try:
                text, _ = process.communicate(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                for other in processes:
                    other.kill()
                text, _ = process.communicate()
                text += f"\nkilled after {limit} s"
            ended.append(Ended(process.returncode, text))
        for rank, one in enumerate(ended):
            if rank not in fails:
                assert one.code == 0, f"rank {rank}:\n{one.text[-3000:]}"
        return ended

    return run
