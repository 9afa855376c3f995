"""Ranks as processes of their own: forks of one that has imported torch (``rank_server.py``), or
interpreters."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from helpers.processes import OF_THE_DEVICE


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
    environments = [
        {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
            "OMP_NUM_THREADS": "1",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(size),
            **environment,
        }
        for rank in range(size)
    ]
    arguments = [
        [str(file), function, str(rank), str(size), str(meeting), str(timeout)] for rank in range(size)
    ]
    # Torch reads the other variables when it is imported.
    if all(name.startswith((*OF_THE_DEVICE, "TEST_")) for name in environment):
        return _forked(arguments, environments, limit)
    return _started(arguments, environments, limit)


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Start the server of ranks of this process; it ends with it."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("rank_server.py"))],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.kill)
    return server


def _forked(arguments: list[list[str]], environments: list[dict[str, str]], limit: float) -> list[Ended]:
    """Run ranks as forks of the server."""
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, str(rank)) for rank in range(len(arguments))]
        request = {
            "arguments": arguments,
            "environments": environments,
            "outputs": [str(output) for output in outputs],
            "limit": limit,
        }
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the server of ranks ended with code {server.wait()}")
        texts = [output.read_text(errors="replace") for output in outputs]
    ended = []
    for code, text in zip(json.loads(answer)["codes"], texts, strict=True):
        killed = f"\nkilled after {limit} s" if code is None else ""
        ended.append(Ended(-9 if code is None else code, text + killed))
    return ended


def _started(arguments: list[list[str]], environments: list[dict[str, str]], limit: float) -> list[Ended]:
    """Run ranks as interpreters."""
    processes = []
    for words, variables in zip(arguments, environments, strict=True):
        command = [sys.executable, "-m", "helpers.rank_main", *words]
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
