"""Runs worlds of ranks, each rank in a fork of this process, which has imported torch alone.

As ``fork_server.py``, for several processes at a time. Reads JSON lines with ``arguments`` (of
``rank_main``), ``environments``, ``outputs`` (both one for each rank) and ``limit`` (seconds); answers each
with ``codes``: exit codes, and null for a rank that had to be killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import torch
import torch.distributed  # noqa: F401  the imports that the forks save


def become(request: dict[str, Any], rank: int) -> list[str]:
    """Make this process, a fork, a rank; returns its arguments."""
    os.setsid()
    file = os.open(request["outputs"][rank], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.environ.clear()
    os.environ.update(request["environments"][rank])
    sys.path[0] = os.getcwd()  # as under `python -m`
    found: list[str] = request["arguments"][rank]
    return found


def wait(ranks: list[int], limit: float) -> list[int | None]:
    """Wait for the ranks of a world; exit codes, negative for signals. All are killed after the limit."""
    end = time.monotonic() + limit
    codes: dict[int, int | None] = {}
    while len(codes) < len(ranks):
        for child in ranks:
            if child in codes:
                continue
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                codes[child] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                codes[child] = None
        time.sleep(0.005)
    return [codes[child] for child in ranks]


def arguments() -> list[str] | None:
    """Serve requests; returns in each fork with the rank's arguments, and here with None at the end."""
    for line in sys.stdin:
        request = json.loads(line)
        ranks: list[int] = []
        for rank in range(len(request["arguments"])):
            child = os.fork()
            if child == 0:
                return become(request, rank)
            ranks.append(child)
        print(json.dumps({"codes": wait(ranks, request["limit"])}), flush=True)
    return None


if __name__ == "__main__":
    found = arguments()
    if found is not None:
        from helpers.rank_main import main

        sys.argv = ["rank_main", *found]
        main(*found)
