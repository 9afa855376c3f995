"""Runs command lines of ``conformance``, each in a fork of this process, which has imported torch and the
suite.

Reads JSON lines with ``arguments``, ``variables``, ``cwd``, ``seconds``, and the paths ``out`` and ``err`` of
files for the output; answers each with ``code``: the exit code, or null if the fork had to be killed.
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

#: Where modules are found but for PYTHONPATH and the folder that a program starts in.
INSTALLED = [
    entry
    for entry in sys.path[1:]
    if os.path.abspath(entry) not in map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep))
]


def become(request: dict[str, Any]) -> int:
    """Make this process, a fork, what ``python -m conformance`` would be; return its exit code."""
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


def wait(child: int, seconds: float) -> int | None:
    """Wait for a fork; its exit code, negative for a signal, or None if it had to be killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def program() -> dict[str, Any] | None:
    """Serve requests; returns in each fork with its request, and here with None at the end of the input."""
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        print(json.dumps({"code": wait(child, request["seconds"])}), flush=True)
    return None


if __name__ == "__main__":
    found = program()
    # A fork leaves by an ordinary end of the interpreter, as the command does.
    sys.exit(0 if found is None else become(found))
