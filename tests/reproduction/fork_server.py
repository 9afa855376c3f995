"""A server process that has loaded slow imports and handles each request in a fork. Requests and replies are
lines of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def serve_requests(work: Callable[[Any], int | None]) -> None:
    """Read requests from stdin. For each, call ``work(request)`` in a fork, and print the fork's exit code
    and output as JSON.

    ``request["variables"]`` is the environment of the fork. ``work`` reads the other keys of the request.
    """
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if child == 0:
                _run_in_fork(work, request, output.fileno())
            _, status = os.waitpid(child, 0)
            output.seek(0)
            text = output.read().decode(errors="replace")
        print(json.dumps({"code": os.waitstatus_to_exitcode(status), "output": text}), flush=True)


def _run_in_fork(work: Callable[[Any], int | None], request: Any, output: int) -> None:
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(request["variables"])
    code = 1
    try:
        code = work(request) or 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class ForkServer:
    """A process that runs a script of this folder. The script calls :func:`serve_requests`."""

    def __init__(self, script: str, variables: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-W", "ignore", str(Path(__file__).parent / script)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and return the reply: the fork's exit ``code`` and its ``output``."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """Terminate the process."""
        self._process.communicate()
