"""Ranks as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Ended:
    """A rank that has ended: its exit code, and its output with its errors."""

    code: int
    text: str


def run_ranks(
    file: Path, function: str, size: int, meeting: Path, *, limit: float, timeout: float, environment: dict
) -> list[Ended]:
    """Run a function of a test file on each rank of an initialised process group.

    Args:
        file: the test file.
        function: name of a function of it, which gets rank and size.
        size: number of ranks.
        meeting: path of a file, not yet there, by which the ranks find each other.
        limit: seconds after which the ranks are killed.
        timeout: seconds that a collective may take.
        environment: variables of the ranks, on top of those of this process.

    Returns:
        The ranks in order.
    """
    processes = []
    for rank in range(size):
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
            "OMP_NUM_THREADS": "1",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(size),
            **environment,
        }
        command = [sys.executable, "-m", "helpers.rank_main", str(file), function]
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
            for running in processes:
                running.kill()
            text, _ = process.communicate()
            text += f"\nkilled after {limit} s"
        ended.append(Ended(process.returncode, text))
    return ended
