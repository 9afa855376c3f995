"""Run programs one after the other, each in a fork of this process, which has imported only torch.

A short process spends most of its time on the import of torch. The device is not loaded in this process, so a
fork is like an interpreter after its first ``import torch``. Each request is a JSON line with ``code``,
``arguments``, ``cwd``, ``environment``, ``quiet``, ``timeout`` (seconds), and the paths ``stdout`` and
``stderr`` of the output files. The reply has ``code``: the exit code, or null after a timeout.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import types
import warnings
from typing import Any

import torch  # noqa: F401  the import that the forks save


def set_up_fork(request: dict[str, Any]) -> str:
    """Set the files, working folder and variables of this forked process. Return the code to run."""
    os.setsid()
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]
    if request["quiet"]:
        warnings.simplefilter("ignore")
        sys.warnoptions[:] = ["ignore"]
    return str(request["code"])


def wait_for_child(child: int, seconds: float) -> int | None:
    """Wait for a forked process. Return its exit code, or None if it was killed after `seconds`.

    The exit code is negative if a signal ended the process.
    """
    end = time.monotonic() + seconds
    pause = 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def fork_for_each_request() -> str | None:
    """Fork a process for each request, and return the requested code in the forked process.

    In the server process, return None when the input ends.
    """
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            return set_up_fork(request)
        print(json.dumps({"code": wait_for_child(child, request["timeout"])}), flush=True)
    return None


if __name__ == "__main__":
    code = fork_for_each_request()
    if code is not None:
        # Run the code as `python -c` does: in a main module without a file, with a normal shutdown.
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(code, "<string>", "exec"), main.__dict__)
