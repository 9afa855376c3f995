"""Run rank pools, each rank in a fork of this process, which has imported only torch.

Each request is a JSON line with ``arguments`` (of ``rank_main``), ``environments`` and ``outputs`` (paths),
each a list with one entry per rank, and ``kill_after`` (seconds). The reply has ``codes``: the exit code of
each rank, or null for a rank that was killed after this time. ``fork_server.py`` does the same for single
programs.
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


def set_up_rank(request: dict[str, Any], rank: int) -> list[str]:
    """Set the output file and environment variables of this forked process. Return its rank's arguments."""
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
    command: list[str] = request["arguments"][rank]
    return command


def wait_for_processes(ranks: list[int], kill_after: float) -> list[int | None]:
    """Wait for the rank processes, and return their exit codes.

    The code is negative after a signal, and None for a process that was killed after `kill_after` seconds.
    """
    end = time.monotonic() + kill_after
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


def fork_for_each_request() -> list[str] | None:
    """Fork a process for each rank of each request. Return the rank's arguments in the forked process.

    In the server process, return None when the input ends.
    """
    for line in sys.stdin:
        request = json.loads(line)
        ranks: list[int] = []
        for rank in range(len(request["arguments"])):
            child = os.fork()
            if child == 0:
                return set_up_rank(request, rank)
            ranks.append(child)
        print(json.dumps({"codes": wait_for_processes(ranks, request["kill_after"])}), flush=True)
    return None


if __name__ == "__main__":
    server_arguments = fork_for_each_request()
    if server_arguments is not None:
        from helpers.rank_main import main

        sys.argv = ["rank_main", *server_arguments]
        main(*server_arguments)
