"""Server process that has imported torch and the suite: it runs each requested ``conformance`` command in a
fork of itself.

Each request is a JSON line with ``arguments``, ``variables``, ``cwd``, ``seconds``, and the paths ``out`` and
``err`` of the output files. The reply has ``code``: the exit code, or null if the fork was killed after
``seconds``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import torch  # noqa: F401  slow to import; forks inherit it

import conformance.cli

#: ``sys.path`` without the entries of PYTHONPATH and without the folder in which this process started.
INSTALLED = [
    entry
    for entry in sys.path[1:]
    if os.path.abspath(entry) not in map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep))
]


def run_request(request: dict[str, Any]) -> int:
    """Run ``python -m conformance`` in this process, which is a fork of the server. Return the exit code."""
    os.setsid()
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["variables"])
    path = [entry or os.getcwd() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    sys.path[:] = [os.getcwd(), *path, *INSTALLED]
    sys.argv = ["conformance", *request["arguments"]]
    return conformance.cli.main()


def wait_for_child(child: int, seconds: float) -> int | None:
    """Wait until a fork ends. Return its exit code, which is negative if a signal ended the fork. After
    ``seconds`` kill the fork and return None.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def next_request_in_fork() -> dict[str, Any] | None:
    """Fork for each request. In the fork, return the request. In the server, return None when
    the input ends.
    """
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        print(json.dumps({"code": wait_for_child(child, request["seconds"])}), flush=True)
    return None


if __name__ == "__main__":
    command = next_request_in_fork()
    # Exit a fork through sys.exit and not os._exit, so that the interpreter shuts down as it does in a
    # process of its own.
    sys.exit(0 if command is None else run_request(command))
