"""Run command lines of ``conformance``, each in a fork of this process, which has imported torch and the
suite.

Each request is a JSON line with ``arguments``, ``variables``, ``cwd``, ``seconds``, and the paths ``out`` and
``err`` of the output files. The reply has ``code``: the exit code, or null if the fork had to be killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import torch  # noqa: F401  the import that the forks save

import conformance.cli

#: The module search path without PYTHONPATH and without the start folder of the program.
INSTALLED = [
    entry
    for entry in sys.path[1:]
    if os.path.abspath(entry) not in map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep))
]


def run_request(request: dict[str, Any]) -> int:
    """Run ``python -m conformance`` in this process, a fork, and return its exit code."""
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
    """Wait for a fork. Return its exit code, negative for a signal, or None if it had to be killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def received_program() -> dict[str, Any] | None:
    """Serve requests. Return the request in each fork, and None in this process at the end of the input."""
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        print(json.dumps({"code": wait_for_child(child, request["seconds"])}), flush=True)
    return None


if __name__ == "__main__":
    command = received_program()
    # A fork ends by a normal interpreter shutdown, like the command.
    sys.exit(0 if command is None else run_request(command))
